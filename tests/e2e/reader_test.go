package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// frame is a frame of the feed as a client sees it: the bytes of its id and
// data lines, and what the data says.
type frame struct {
	id, event, raw string
	comment        bool

	Request string         `json:"id"`
	Type    string         `json:"response_type"`
	Content string         `json:"content"`
	Done    bool           `json:"done"`
	Data    map[string]any `json:"data"`
	Usage   map[string]any `json:"usage"`
}

func (f frame) text(key string) string {
	s, _ := f.Data[key].(string)
	return s
}

func (f frame) terminal() bool {
	return f.Done && (f.Type == "complete" || f.Type == "stop" || f.Type == "error")
}

// wire is what must be the same for every reader.
func wire(frames []frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "id:%s\nevent:%s\ndata:%s\n\n", f.id, f.event, f.raw)
	}
	return b.String()
}

// reader reads one stream.
type reader struct {
	head   http.Header
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Reader
}

// read opens a stream at a place ("" is the start).
func (c client) read(ctx context.Context, path, last string) (*reader, error) {
	return c.stream(ctx, http.MethodGet, path, nil, last)
}

func (c client) stream(ctx context.Context, method, path string, in any, last string) (*reader, error) {
	ctx, cancel := context.WithCancel(ctx)
	head := map[string]string{}
	if last != "" {
		head["Last-Event-ID"] = last
	}
	res, err := c.send(ctx, method, path, in, head)
	if err != nil {
		cancel()
		return nil, err
	}
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		cancel()
		return nil, errors.Join(&statusError{res.StatusCode, string(raw)}, err)
	}
	return &reader{res.Header, cancel, res.Body, bufio.NewReaderSize(res.Body, 64<<10)}, nil
}

type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.body) }

func (r *reader) close() {
	r.cancel()
	r.body.Close()
}

// any gives the next frame or comment; io.EOF at the end of the stream. A frame
// that was cut in the middle does not count.
func (r *reader) any() (frame, error) {
	var f frame
	seen := false
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			if !seen {
				continue
			}
			if f.raw != "" {
				if err := json.Unmarshal([]byte(f.raw), &f); err != nil {
					return f, fmt.Errorf("data is no JSON: %w: %s", err, f.raw)
				}
			}
			return f, nil
		case strings.HasPrefix(line, ":"):
			f.comment, seen = true, true
		case strings.HasPrefix(line, "id:"):
			f.id, seen = line[3:], true
		case strings.HasPrefix(line, "event:"):
			f.event, seen = line[6:], true
		case strings.HasPrefix(line, "data:"):
			if f.raw != "" {
				return f, errors.New("a frame has two data lines")
			}
			f.raw, seen = line[5:], true
		case strings.HasPrefix(line, "retry:"):
		default:
			return f, fmt.Errorf("a line of no known kind: %q", line)
		}
	}
}

// next gives the next frame that is no comment.
func (r *reader) next() (frame, error) {
	for {
		f, err := r.any()
		if err != nil || !f.comment {
			return f, err
		}
	}
}

// must gives the next n frames.
func (r *reader) must(t testing.TB, n int) []frame {
	t.Helper()
	out := make([]frame, 0, n)
	for len(out) < n {
		f, err := r.next()
		if err != nil {
			t.Fatalf("frame %d of %d: %v; so far:\n%s", len(out)+1, n, err, tail(wire(out), 3000))
		}
		out = append(out, f)
	}
	return out
}

// until reads up to and including the first frame that fits.
func (r *reader) until(t testing.TB, fits func(frame) bool) []frame {
	t.Helper()
	var out []frame
	for {
		f, err := r.next()
		if err != nil {
			t.Fatalf("the frame that was waited for did not come: %v; so far:\n%s", err, tail(wire(out), 3000))
		}
		out = append(out, f)
		if fits(f) {
			return out
		}
	}
}

// rest reads to the end of the stream, which the server must have closed in an
// orderly way.
func (r *reader) rest(t testing.TB) []frame {
	t.Helper()
	defer r.close()
	var out []frame
	for {
		f, err := r.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the stream broke: %v; so far:\n%s", err, tail(wire(out), 3000))
		}
		out = append(out, f)
	}
}

// shown folds frames into the answer that a client has on its screen at the
// end: blocks of one event id, without what was superseded.
func shown(frames []frame, kind string) string {
	var order []string
	blocks := map[string]string{}
	for _, f := range frames {
		id := f.text("event_id")
		if f.Type != kind || id == "" {
			continue
		}
		if f.Data["superseded"] == true {
			delete(blocks, id)
			continue
		}
		if _, known := blocks[id]; !known {
			order = append(order, id)
		}
		blocks[id] += f.Content
	}
	var b strings.Builder
	for _, id := range order {
		b.WriteString(blocks[id])
	}
	return b.String()
}

// checkFeed checks what every whole feed of a run must have: it begins with
// agent_query, ends with the only terminal frame, has ids that differ and one
// request id, and answers every call exactly once.
func checkFeed(t testing.TB, frames []frame) {
	t.Helper()
	if len(frames) < 2 || frames[0].Type != "agent_query" {
		t.Errorf("the feed does not begin with agent_query:\n%s", wire(frames))
		return
	}
	ids, calls, results := map[string]bool{}, map[string]bool{}, map[string]int{}
	for i, f := range frames {
		if f.id == "" || ids[f.id] || f.event != "message" || f.Request != frames[0].Request {
			t.Errorf("frame %d: id %q (again: %v), event %q, request %q", i, f.id, ids[f.id], f.event, f.Request)
		}
		ids[f.id] = true
		if f.terminal() != (i == len(frames)-1) {
			t.Errorf("frame %d of %d: terminal is %v: %s", i, len(frames), f.terminal(), f.raw)
		}
		id := f.text("tool_call_id")
		switch {
		case f.Type == "tool_call":
			calls[id] = true
		case f.Type == "tool_result", f.Type == "error" && !f.Done:
			results[id]++
			if !calls[id] {
				t.Errorf("a result without its call: %s", f.raw)
			}
		}
	}
	for id := range calls {
		if results[id] != 1 {
			t.Errorf("call %s has %d results, not 1:\n%s", id, results[id], wire(frames))
		}
	}
}
