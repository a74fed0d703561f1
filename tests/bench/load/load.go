// Package load is what the benchmarks have in common: a model server that answers
// at once, a tool that does nothing, and a client. It may import domain/tool.
package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"refold/domain/tool"
)

// Model serves a scripted model that answers at once, with as little work of
// its own as possible: rounds-1 rounds with one call of a tool, then text. The
// round is counted by the tool messages of the request, so every run gets the
// same. stop ends it.
func Model(rounds int, tool string, args func(n int) string) (url string, stop func(), err error) {
	call := func(n int) string {
		return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"role":"assistant","content":"Looking at part %d. "}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%q}}]}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}

data: [DONE]

`, n, n, tool, args(n))
	}
	text := `data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"role":"assistant","content":"All parts "}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"content":"were looked at."}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}

data: [DONE]

`
	answers := make([]string, rounds)
	for i := range answers {
		answers[i] = call(i)
	}
	answers[rounds-1] = text
	return Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buf)
			body.Write(buf[:n])
			if err != nil {
				break
			}
		}
		done := min(strings.Count(body.String(), `"role":"tool"`), rounds-1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte(answers[done]))
	}))
}

// Serve serves a model server's handler on a free port.
func Serve(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	return "http://" + l.Addr().String() + "/v1", func() { server.Close() }, nil
}

// Client is an HTTP client that keeps its connections.
var Client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// Session opens a session and gives its id.
func Session(base string) (string, error) {
	res, err := Client.Post(base+"/sessions", "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var s struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		return "", err
	}
	if s.Data.ID == "" {
		return "", fmt.Errorf("no session was opened: %s", res.Status)
	}
	return s.Data.ID, nil
}

// Ask posts a question and reads the stream to its last frame, giving each line
// to see, if that is not nil.
func Ask(base, session string, see func(line []byte)) error {
	res, err := Client.Post(base+"/agent-chat/"+session, "application/json", strings.NewReader(`{"query":"Look at all parts."}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if see != nil {
			see(lines.Bytes())
		}
		if bytes.Contains(lines.Bytes(), []byte(`"response_type":"complete"`)) {
			return nil
		}
	}
	return fmt.Errorf("the stream ended without a complete frame: %s, %v", res.Status, lines.Err())
}

// Turn opens a session, asks a question and reads the stream to its last frame.
func Turn(base string) error {
	session, err := Session(base)
	if err != nil {
		return err
	}
	return Ask(base, session, nil)
}

// LookArgs are the arguments of the tool "look" in a round.
func LookArgs(n int) string { return fmt.Sprintf(`{"part":%d}`, n) }

// LookSchema is the schema of the tool "look".
var LookSchema = json.RawMessage(`{"type":"object","properties":{"part":{"type":"integer"}},"required":["part"]}`)

// LookOutput is what the tool "look" answers.
const LookOutput = "This part holds nothing unusual; everything is where it should be."

// Look is the tool of the engine benchmarks: it does nothing, at once.
type Look struct{}

// Definition implements tool.Tool.
func (Look) Definition() tool.Definition {
	return tool.Definition{Name: "look", Description: "Look at a part.", Schema: LookSchema, Effect: tool.ReadOnly}
}

// Run implements tool.Tool.
func (Look) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Output: LookOutput}, nil
}
