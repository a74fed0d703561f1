package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// client talks to a server under test.
type client struct {
	base string
	head map[string]string
}

func (p *process) client() client { return client{base: "http://" + p.addr} }

// with gives a client that sends one more header.
func (c client) with(name, value string) client {
	head := map[string]string{name: value}
	for k, v := range c.head {
		head[k] = v
	}
	return client{c.base, head}
}

// plain keeps no connections: killed servers leave none behind.
// What goes through it is checked against the OpenAPI document.
var plain = &http.Client{Transport: checker.Transport(&http.Transport{DisableKeepAlives: true, DisableCompression: true})}

// send sends a request; in is JSON text, or a value to encode, or nil. Told that a
// view has not caught up yet, on a machine that is busy, it tries again, as the
// answer asks for.
func (c client) send(ctx context.Context, method, path string, in any, head map[string]string) (*http.Response, error) {
	for {
		res, err := c.sendOnce(ctx, method, path, in, head)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			return res, err
		}
		said, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(said, []byte("has not caught up yet")) || ctx.Err() != nil {
			res.Body = io.NopCloser(bytes.NewReader(said))
			return res, nil
		}
	}
}

func (c client) sendOnce(ctx context.Context, method, path string, in any, head map[string]string) (*http.Response, error) {
	var body io.Reader
	switch in := in.(type) {
	case nil:
	case string:
		body = strings.NewReader(in)
	default:
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range []map[string]string{c.head, head} {
		for k, v := range h {
			if k == "Host" {
				req.Host = v
			} else {
				req.Header.Set(k, v)
			}
		}
	}
	return plain.Do(req)
}

// answer is a whole response.
type answer struct {
	status int
	head   http.Header
	body   string
}

func (c client) try(ctx context.Context, method, path string, in any) (answer, error) {
	res, err := c.send(ctx, method, path, in, nil)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(raw)}, err
}

func (c client) do(t testing.TB, method, path string, in any) answer {
	t.Helper()
	a, err := c.try(guarded(t), method, path, in)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// sendFile uploads a file in a form, without saying how long the body is, as the SDK
// does. fields are names and values by turns.
func (c client) sendFile(ctx context.Context, path, name string, content []byte, fields ...string) (answer, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	var err error
	for i := 0; i+1 < len(fields); i += 2 {
		err = errors.Join(err, w.WriteField(fields[i], fields[i+1]))
	}
	part, made := w.CreateFormFile("file", name)
	if err = errors.Join(err, made); err != nil {
		return answer{}, err
	}
	part.Write(content)
	w.Close()
	req, err := http.NewRequestWithContext(ctx, "POST", c.base+path, io.MultiReader(&b))
	if err != nil {
		return answer{}, err
	}
	for k, v := range c.head {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	res, err := plain.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(raw)}, err
}

// data decodes the field "data" of an answer that must have a status.
func (a answer) data(t testing.TB, status int, into any) {
	t.Helper()
	if a.status != status {
		t.Fatalf("HTTP %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &struct {
		Data any `json:"data"`
	}{into}); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// session opens a session.
func (c client) session(t testing.TB) string {
	t.Helper()
	var s struct{ ID string }
	c.do(t, "POST", "/api/v1/sessions", map[string]any{"title": "t"}).data(t, 201, &s)
	return s.ID
}

// chat posts a message and gives its stream.
func (c client) chat(t testing.TB, session, query string) *reader {
	t.Helper()
	return c.chatWith(t, session, map[string]any{"query": query, "agent_id": "builtin-smart-reasoning", "agent_enabled": true})
}

func (c client) chatWith(t testing.TB, session string, body map[string]any) *reader {
	t.Helper()
	r, err := c.stream(guarded(t), "POST", "/api/v1/agent-chat/"+session, body, "")
	if err != nil {
		t.Fatalf("chat: %v", err)
	}
	t.Cleanup(r.close)
	return r
}

func (r *reader) run() string { return r.head.Get("X-Refold-Run") }

// watch opens a run's stream from a place.
func (c client) watch(t testing.TB, session, run, last string) *reader {
	t.Helper()
	return c.open(t, continued(session, run), last)
}

func (c client) open(t testing.TB, path, last string) *reader {
	t.Helper()
	r, err := c.read(guarded(t), path, last)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	t.Cleanup(r.close)
	return r
}

func continued(session, run string) string {
	return "/api/v1/sessions/continue-stream/" + session + "?message_id=" + url.QueryEscape(run)
}

// message is an assistant's message as far as tests look at it.
type message struct {
	ID        string
	Role      string
	Content   string
	Completed bool `json:"is_completed"`
	Fallback  bool `json:"is_fallback"`
	Outcome   string
	EndReason string `json:"end_reason"`
	Degraded  bool
	Error     *struct{ Code, Message string }
	Usage     *struct {
		Total int `json:"total_tokens"`
	}
	Steps []struct {
		Iteration int
		Thought   string
		Reasoning string `json:"reasoning_content"`
		Calls     []struct {
			ID, Name string
			Args     json.RawMessage
			Result   *struct {
				Success       bool
				Output, Error string
			}
		} `json:"tool_calls"`
	} `json:"agent_steps"`
	CreatedAt time.Time `json:"created_at"`
}

// messages loads the messages of a session.
func (c client) messages(t testing.TB, session string) []message {
	t.Helper()
	var out []message
	c.do(t, "GET", "/api/v1/messages/"+session+"/load?limit=1000", nil).data(t, 200, &out)
	return out
}

// message loads one message.
func (c client) message(t testing.TB, session, id string) message {
	t.Helper()
	for _, m := range c.messages(t, session) {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("session %s has no message %s", session, id)
	return message{}
}

// approval is an approval in the inbox.
type approval struct {
	ID, Run, Call, Tool, Trigger, Status, Reason string
	Args                                         json.RawMessage
}

func (c client) approvals(t testing.TB, query string) []approval {
	t.Helper()
	var out []approval
	c.do(t, "GET", "/api/v1/agent/tool-approvals?"+query, nil).data(t, 200, &out)
	return out
}
