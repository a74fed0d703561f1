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
	"testing"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"refold/domain/tool"
	"refold/infra/app"
	"refold/tests/bench/load"
)

// parallel runs n tasks, at most width at a time, and reports wall and CPU per
// round. The model server runs in the same process for all of them.
func parallel(b *testing.B, width, rounds int, task func() error) {
	b.Helper()
	gate := make(chan struct{}, width)
	var wg sync.WaitGroup
	var once sync.Once
	start, used := time.Now(), cpu()
	b.ResetTimer()
	for range b.N {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := task(); err != nil {
				once.Do(func() { b.Error(err) })
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	n := float64(b.N * rounds)
	b.ReportMetric(float64(time.Since(start).Microseconds())/n, "wall-µs/round")
	b.ReportMetric(float64((cpu()-used).Microseconds())/n, "cpu-µs/round")
}

// bareLoop is what an agent without a record costs: go-openai, a slice of
// messages, a function call.
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

// serve opens a whole Refold on a fresh directory and serves it.
func serve(b *testing.B, model string) string {
	b.Helper()
	a, err := app.Open(context.Background(), app.Config{Data: b.TempDir(), Temperature: -1, Tools: []tool.Tool{load.Look{}},
		Models: []app.ModelConfig{{Name: "scripted", BaseURL: model, APIKey: "key", Model: "scripted"}}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l, false) }()
	b.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, a.Close()); err != nil {
			b.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/api/v1"
}

// BenchmarkEngine runs whole agent turns: a bare go-openai loop without any
// record, and Refold over HTTP with every step durable, on the same model
// server in the same process.
func BenchmarkEngine(b *testing.B) {
	for _, rounds := range []int{5, 10, 50} {
		model, stop, err := load.Model(rounds, "look", load.LookArgs)
		if err != nil {
			b.Fatal(err)
		}
		defer stop()
		for _, width := range []int{1, 16} {
			b.Run(fmt.Sprintf("rounds=%d/runs=%d/bare", rounds, width), func(b *testing.B) {
				parallel(b, width, rounds, func() error { return bareLoop(model) })
			})
			b.Run(fmt.Sprintf("rounds=%d/runs=%d/refold", rounds, width), func(b *testing.B) {
				base := serve(b, model)
				parallel(b, width, rounds, func() error { return load.Turn(base) })
			})
		}
	}
}
