package eino

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	openai "github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/run"
	refoldtool "refold/domain/tool"
	"refold/infra/app"
	"refold/tests/bench/load"
)

const rounds = 10

// look is load.Look for Eino.
type look struct{}

func (look) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "look", Desc: "Look at a part.", ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{
		"part": {Type: schema.Integer, Required: true}})}, nil
}

func (look) InvokableRun(context.Context, string, ...tool.Option) (string, error) {
	return load.LookOutput, nil
}

var shared = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// calls looks through a stream for a tool call, as text may come first.
func calls(_ context.Context, sr *schema.StreamReader[*schema.Message]) (bool, error) {
	defer sr.Close()
	for {
		m, err := sr.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(m.ToolCalls) > 0 {
			return true, nil
		}
	}
}

func einoAgent(tb testing.TB, url string) func() error {
	ctx := context.Background()
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "key", BaseURL: url, Model: "scripted", HTTPClient: shared})
	if err != nil {
		tb.Fatal(err)
	}
	a, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: model, MaxStep: 4 * rounds, StreamToolCallChecker: calls,
		ToolsConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{look{}}}})
	if err != nil {
		tb.Fatal(err)
	}
	return func() error {
		sr, err := a.Stream(ctx, []*schema.Message{schema.SystemMessage("You look at parts."), schema.UserMessage("Look at all parts.")})
		if err != nil {
			return err
		}
		defer sr.Close()
		var text strings.Builder
		for {
			m, err := sr.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			text.WriteString(m.Content)
		}
		if !strings.HasSuffix(text.String(), "were looked at.") {
			return fmt.Errorf("eino answered %q", text.String())
		}
		return nil
	}
}

// engine runs a question through the whole engine, every step durable, and waits
// for the fact that ends the run.
func engine(tb testing.TB, url string) func() error {
	ctx := context.Background()
	a, err := app.Open(ctx, app.Config{Data: tb.TempDir(), Temperature: -1, Tools: []refoldtool.Tool{load.Look{}},
		Models: []app.ModelConfig{{Name: "scripted", BaseURL: url, APIKey: "key", Model: "scripted"}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	var mu sync.Mutex
	waiting := map[string]chan string{}
	follow, stop := context.WithCancel(ctx)
	tb.Cleanup(stop)
	go event.Follow(follow, a.Store, "", event.Filter{Categories: []string{run.Category}}, func(batch []event.Raw, _ event.Position) error {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range batch {
			if strings.HasPrefix(e.Type, "Run") && e.Type != "RunStarted" {
				if c := waiting[e.Stream.ID]; c != nil {
					c <- e.Type
				} else {
					c = make(chan string, 1)
					c <- e.Type
					waiting[e.Stream.ID] = c
				}
			}
		}
		return nil
	})
	by := commands.Caller{Tenant: "1", Principal: "bench"}
	return func() error {
		id, _, err := a.Commands.CreateSession(ctx, by, "", "")
		if err != nil {
			return err
		}
		p, err := a.Commands.PostMessage(ctx, by, commands.PostMessage{Session: id, Query: "Look at all parts.", Agent: agent.SmartReasoning})
		if err != nil {
			return err
		}
		mu.Lock()
		c := waiting[p.Run]
		if c == nil {
			c = make(chan string, 1)
			waiting[p.Run] = c
		}
		mu.Unlock()
		if end := <-c; end != "RunCompleted" {
			return fmt.Errorf("the run ended with %s", end)
		}
		mu.Lock()
		delete(waiting, p.Run)
		mu.Unlock()
		return nil
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost is what n tasks cost, width at a time, in microseconds (and allocations)
// per round.
type cost struct{ wall, cpu, allocs float64 }

func measure(b *testing.B, n, width int, task func() error) cost {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, used := time.Now(), cpu()
	gate := make(chan struct{}, width)
	var wg sync.WaitGroup
	for range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := task(); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	per := float64(n * rounds)
	c := cost{wall: float64(time.Since(start).Microseconds()) / per, cpu: float64((cpu() - used).Microseconds()) / per}
	runtime.ReadMemStats(&after)
	c.allocs = float64(after.Mallocs-before.Mallocs) / per
	return c
}

func median(v []float64) float64 {
	s := append([]float64(nil), v...)
	for i := range s {
		for j := i + 1; j < len(s); j++ {
			if s[j] < s[i] {
				s[i], s[j] = s[j], s[i]
			}
		}
	}
	return s[len(s)/2]
}

// BenchmarkG10 runs ten rounds with a tool each, at 16 and 64 runs at a time,
// Eino and Refold in turn, five times, and reports medians. Both talk to the
// same model server, in this process; its cost is in both.
func BenchmarkG10(b *testing.B) {
	url := load.Model(b, rounds)
	eino, refold := einoAgent(b, url), engine(b, url)
	for _, width := range []int{16, 64} {
		b.Run(fmt.Sprintf("runs=%d", width), func(b *testing.B) {
			var ew, ec, ea, rw, rc, ra []float64
			for b.Loop() {
				for range 5 {
					e := measure(b, 2*width, width, eino)
					r := measure(b, 2*width, width, refold)
					ew, ec, ea = append(ew, e.wall), append(ec, e.cpu), append(ea, e.allocs)
					rw, rc, ra = append(rw, r.wall), append(rc, r.cpu), append(ra, r.allocs)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ew), "eino-wall-µs")
			b.ReportMetric(median(rw), "refold-wall-µs")
			b.ReportMetric(median(ec), "eino-cpu-µs")
			b.ReportMetric(median(rc), "refold-cpu-µs")
			b.ReportMetric(median(rw)/median(ew), "wall-x")
			b.ReportMetric(median(rc)/median(ec), "cpu-x")
			b.ReportMetric(median(ra)/median(ea), "allocs-x")
		})
	}
}

// BenchmarkRefold is the engine alone, for profiles.
func BenchmarkRefold(b *testing.B) {
	task := engine(b, load.Model(b, rounds))
	measure(b, 32, 16, task)
	b.ResetTimer()
	c := measure(b, b.N, 16, task)
	b.ReportMetric(c.cpu, "cpu-µs/round")
	b.ReportMetric(c.allocs, "allocs/round")
}
