//go:build linux

// Command eino measures Refold's whole engine beside Eino's ReAct agent, on the
// same model server in the same process, and prints what each round of
// measurement gave as JSON. It is a module of its own, so that the product does
// not depend on Eino; the table of tests/bench runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	"refold/domain/session"
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

func einoAgent(url string) (func() error, error) {
	ctx := context.Background()
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "key", BaseURL: url, Model: "scripted", HTTPClient: load.Client})
	if err != nil {
		return nil, err
	}
	a, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: model, MaxStep: 4 * rounds, StreamToolCallChecker: calls,
		ToolsConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{look{}}}})
	if err != nil {
		return nil, err
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
	}, nil
}

// engine is Refold, every step durable.
type engine struct {
	app  *app.App
	stop context.CancelFunc

	mu      sync.Mutex
	ends    map[string]chan string // run -> the fact that ends it
	appends map[string]struct{}    // one for each append of facts that a run waits for
}

func newEngine(data, url string) (*engine, error) {
	ctx, stop := context.WithCancel(context.Background())
	a, err := app.Open(ctx, app.Config{Data: data, Temperature: -1, Tools: []refoldtool.Tool{load.Look{}},
		Models: []app.ModelConfig{{Name: "scripted", BaseURL: url, APIKey: "key", Model: "scripted"}}})
	if err != nil {
		stop()
		return nil, err
	}
	e := &engine{app: a, stop: stop, ends: map[string]chan string{}, appends: map[string]struct{}{}}
	go event.Follow(ctx, a.Store, "", event.Filter{Categories: []string{session.Category, run.Category}}, e.see)
	return e, nil
}

func (e *engine) end(id string) chan string {
	if e.ends[id] == nil {
		e.ends[id] = make(chan string, 1)
	}
	return e.ends[id]
}

func (e *engine) see(batch []event.Raw, _ event.Position) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range batch {
		if !strings.Contains(r.Type, "Title") { // made after the answer
			e.appends[r.Stream.String()+r.Time.String()] = struct{}{}
		}
		if strings.HasPrefix(r.Type, "Run") && r.Type != "RunStarted" {
			e.end(r.Stream.ID) <- r.Type
		}
	}
	return nil
}

// task runs a question through the whole engine and waits for the fact that ends
// the run.
func (e *engine) task() error {
	ctx, by := context.Background(), commands.Caller{Tenant: "1", Principal: "bench"}
	id, _, err := e.app.Commands.CreateSession(ctx, by, "", "")
	if err != nil {
		return err
	}
	p, err := e.app.Commands.PostMessage(ctx, by, commands.PostMessage{Session: id, Query: "Look at all parts.", Agent: agent.SmartReasoning})
	if err != nil {
		return err
	}
	e.mu.Lock()
	end := e.end(p.Run)
	e.mu.Unlock()
	if how := <-end; how != "RunCompleted" {
		return fmt.Errorf("the run ended with %s", how)
	}
	e.mu.Lock()
	delete(e.ends, p.Run)
	e.mu.Unlock()
	return nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost is what n tasks cost, width at a time, in microseconds (and allocations)
// per round. The model server is part of it on both sides.
type cost struct{ Wall, CPU, Allocs float64 }

func measure(n, width int, task func() error) (cost, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, used := time.Now(), cpu()
	gate, errs := make(chan struct{}, width), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			errs[i] = task()
		})
	}
	wg.Wait()
	per := float64(n * rounds)
	c := cost{Wall: float64(time.Since(start).Microseconds()) / per, CPU: float64((cpu() - used).Microseconds()) / per}
	runtime.ReadMemStats(&after)
	c.Allocs = float64(after.Mallocs-before.Mallocs) / per
	return c, errors.Join(errs...)
}

// p50 is the middle of how long n calls took, in microseconds.
func p50(n int, f func() error) (float64, error) {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return float64(took[n/2].Nanoseconds()) / 1000, nil
}

// sample is what one round of measurement gave.
type sample struct {
	Width        int
	Eino, Refold cost
	// Of one run at a time: the whole task's wall in microseconds, how many
	// appends of facts it waits for, and a bare fdatasync.
	EinoTask, RefoldTask, Appends, Sync float64
}

func main() {
	width := flag.Int("width", 16, "runs at a time; 1 measures whole tasks beside fdatasync")
	times := flag.Int("rounds", 5, "rounds of measurement, after one that is not counted")
	profile := flag.String("cpuprofile", "", "write a CPU profile of Refold's part to a `file`")
	flag.Parse()
	if err := compare(*width, *times, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "eino:", err)
		os.Exit(1)
	}
}

func compare(width, times int, profile string) (err error) {
	url, stop, err := load.Model(rounds, "look", load.LookArgs)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "refold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	theirs, err := einoAgent(url)
	if err != nil {
		return err
	}
	ours, err := newEngine(dir, url)
	if err != nil {
		return err
	}
	defer func() {
		ours.stop()
		err = errors.Join(err, ours.app.Close())
	}()
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(os.Stdout)
	for round := range times + 1 {
		s := sample{Width: width}
		if width == 1 {
			err = one(&s, ours, theirs, dir)
		} else {
			s.Refold, err = measure(2*width, width, ours.task)
			if err == nil {
				s.Eino, err = measure(2*width, width, theirs)
			}
		}
		if err != nil {
			return err
		}
		if round == 0 {
			continue
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// one compares one run at a time.
func one(s *sample, ours *engine, theirs func() error, dir string) error {
	const tasks = 20
	ours.mu.Lock()
	clear(ours.appends)
	ours.mu.Unlock()
	var err error
	if s.RefoldTask, err = p50(tasks, ours.task); err != nil {
		return err
	}
	ours.mu.Lock()
	s.Appends = float64(len(ours.appends)) / tasks
	ours.mu.Unlock()
	if s.EinoTask, err = p50(tasks, theirs); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, 4096)
	s.Sync, err = p50(200, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return syscall.Fdatasync(int(f.Fd()))
	})
	return err
}
