// Package load is what the benchmarks have in common: a model server that answers
// at once, and a tool that does nothing. It may import domain/tool.
package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"refold/domain/tool"
)

// Model serves a scripted model that answers at once, with as little work of
// its own as possible: rounds-1 rounds with one call, then text. The round is
// counted by the tool messages of the request, so every run gets the same.
func Model(tb testing.TB, rounds int) string {
	tb.Helper()
	call := func(n int) string {
		return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"role":"assistant","content":"Looking at part %d. "}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":"look","arguments":"{\"part\":%d}"}}]}}]}

data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}

data: [DONE]

`, n, n, n)
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	})}
	go server.Serve(l)
	tb.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/v1"
}

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
