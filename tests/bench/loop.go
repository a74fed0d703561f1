//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"refold/domain/tool"
	"refold/infra/app"
	"refold/tests/bench/load"
)

// besideLoop is what the record costs: whole turns of ten rounds over HTTP, every
// step durable, beside a go-openai loop that keeps nothing. Both run in this
// process, on the same model server; its work and that of the client count on
// both sides.
func besideLoop(t *T) {
	const n = 10
	model, stop, err := load.Model(n, "look", load.LookArgs)
	t.check(err)
	t.Cleanup(stop)
	base := t.engine(model)
	for _, width := range []int{1, 16} {
		runs := fmt.Sprintf("%d at a time", width)
		var cpus [2]samples // the first of each is not counted
		measure := func(side int, task func() error) func() float64 {
			return func() float64 {
				used := cpu()
				wall := t.together(4*width, width, task)
				cpus[side] = append(cpus[side], float64((cpu()-used).Microseconds())/float64(4*width*n))
				return float64(wall.Microseconds()) / float64(4*width*n)
			}
		}
		walls := alternate(measure(0, func() error { return load.Turn(base) }), measure(1, func() error { return bareLoop(model) }))
		for _, m := range []struct {
			name         string
			ours, theirs samples
		}{{"CPU", cpus[0][1:], cpus[1][1:]}, {"wall", walls[0], walls[1]}} {
			over := make(samples, rounds)
			for i := range over {
				over[i] = m.ours[i] - m.theirs[i]
			}
			t.add(fmt.Sprintf("%s of a round over HTTP, runs %s", m.name, runs), "a go-openai loop without a record", ratio(m.ours, m.theirs), noTarget("x"),
				"%.0f / %.0f µs: the engine adds %.0f µs", m.ours.median(), m.theirs.median(), over.median())
		}
	}
}

// together does a task n times, width at a time, and says how long all took.
func (t *T) together(n, width int, task func() error) time.Duration {
	gate := make(chan struct{}, width)
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := task(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// engine opens a whole Refold in this process, with the tool "look", serves it
// and gives where. It ends with the row.
func (t *T) engine(model string) (base string) {
	a, err := app.Open(context.Background(), app.Config{Data: t.TempDir(), Temperature: -1, Tools: []tool.Tool{load.Look{}},
		Models: []app.ModelConfig{{Name: "scripted", BaseURL: model, APIKey: "key", Model: "scripted"}}})
	t.check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	t.check(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l, false) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/api/v1"
}

// bareLoop is an agent without a record: go-openai, a slice of messages, a
// function call.
func bareLoop(url string) error {
	cfg := goopenai.DefaultConfig("key")
	cfg.BaseURL = url
	cfg.HTTPClient = load.Client
	client := goopenai.NewClientWithConfig(cfg)
	tools := []goopenai.Tool{{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{Name: "look", Description: "Look at a part.", Parameters: load.LookSchema}}}
	messages := []goopenai.ChatCompletionMessage{{Role: "system", Content: "You look at parts."}, {Role: "user", Content: "Look at all parts."}}
	for {
		stream, err := client.CreateChatCompletionStream(context.Background(), goopenai.ChatCompletionRequest{Model: "scripted", Messages: messages, Tools: tools})
		if err != nil {
			return err
		}
		var text strings.Builder
		var calls []goopenai.ToolCall
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			for _, c := range chunk.Choices {
				text.WriteString(c.Delta.Content)
				calls = append(calls, c.Delta.ToolCalls...)
			}
		}
		stream.Close()
		if len(calls) == 0 {
			if !strings.HasSuffix(text.String(), "were looked at.") {
				return fmt.Errorf("the bare loop ended with %q", text.String())
			}
			return nil
		}
		messages = append(messages, goopenai.ChatCompletionMessage{Role: "assistant", Content: text.String(), ToolCalls: calls})
		for _, c := range calls {
			var args struct {
				Part int `json:"part"`
			}
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
				return err
			}
			messages = append(messages, goopenai.ChatCompletionMessage{Role: "tool", ToolCallID: c.ID, Content: load.LookOutput})
		}
	}
}
