//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/memory"
	"refold/infra/tiktoken"
)

// cpu is the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// windowed is a model in the process that looks round after round and then
// answers: what is left to measure is the engine and the building of requests.
type windowed struct{ rounds int }

func (windowed) Name() string { return "windowed" }

func (m windowed) Model(string) (handlers.Model, error) { return m, nil }

func (m windowed) Chat(_ context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	done := 0
	for i := range req.Messages {
		if req.Messages[i].Role == handlers.RoleTool {
			done++
		}
	}
	if done+1 >= m.rounds {
		err := emit(handlers.ModelDelta{Content: "All parts were looked at."})
		return handlers.ModelReply{Content: "All parts were looked at.", Finish: handlers.FinishStop}, err
	}
	return handlers.ModelReply{Finish: handlers.FinishToolCalls, Calls: []handlers.ModelCall{{ID: fmt.Sprint("c", done), Name: "look", Arguments: fmt.Sprintf(`{"part":%d}`, done)}}}, nil
}

// bulky is a toolbox with a tool whose results are as long as a page.
type bulky struct{ def tool.Definition }

func (b bulky) Hash(string) string               { return b.def.Hash() }
func (b bulky) CleanRun(context.Context, string) {}

func (b bulky) Invoke(_ context.Context, _ string, c tool.Call, _ int) handlers.ToolOutcome {
	text := string(c.Arguments) + strings.Repeat(" This part holds nothing unusual; everything is where it should be.", 30)
	return handlers.ToolOutcome{Success: true, Output: text, Full: text}
}

type oneAgent struct{ def tool.Definition }

func (oneAgent) Agent(context.Context, string, string) (agent.Agent, bool, error) {
	return agent.Agent{ID: "a", SystemPrompt: "You look at parts.", MaxRounds: 100}, true, nil
}

func (a oneAgent) Scope(context.Context, string, agent.Agent, *session.Sources, string, bool) (commands.Scope, error) {
	return commands.Scope{}, nil
}

func (a oneAgent) Offer(context.Context, string, agent.Agent, commands.Means) ([]tool.Definition, error) {
	return []tool.Definition{a.def}, nil
}

// engine is commands and a runner at work, on a store in memory.
type engine struct {
	store *memory.Store
	*commands.Commands
	runner *handlers.Runner
	end    func()
}

func startEngine(t *T, counter handlers.TokenCounter, rounds int, def tool.Definition) *engine {
	e := &engine{store: memory.New()}
	e.Commands = commands.New(e.store, oneAgent{def}, time.Now, uuid.NewString)
	e.runner = &handlers.Runner{Commands: e.Commands, Store: e.store, Models: windowed{rounds}, Tools: bulky{def}, Blobs: &memory.Blobs{}, Tokens: counter,
		Clock: handlers.SystemClock{}, Log: slog.New(slog.DiscardHandler), Self: "bench", Sole: true}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.runner.Run(ctx, "", nil) }()
	e.end = func() {
		stop()
		t.check(<-done)
	}
	return e
}

var by = commands.Caller{Tenant: "1", Principal: "u", Request: "q"}

func (e *engine) post(ctx context.Context) (string, error) {
	session, _, err := e.CreateSession(ctx, by, "T", "")
	if err != nil {
		return "", err
	}
	p, err := e.PostMessage(ctx, by, commands.PostMessage{Session: session, Query: "Look at all parts.", Agent: "a"})
	return p.Run, err
}

var look = tool.Definition{Name: "look", Description: "Look at a part.", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.ReadOnly, Untrusted: true}

// lookAround runs one turn of a number of rounds and gives the processor time of
// a round, in microseconds.
func lookAround(t *T, counter handlers.TokenCounter, rounds int) float64 {
	e := startEngine(t, counter, rounds, look)
	defer e.end()
	ctx := context.Background()
	began := cpu()
	id, err := e.post(ctx)
	t.check(err)
	seen := int64(0)
	for {
		head, err := e.store.Head(ctx)
		t.check(err)
		recs, err := e.Runs.Load(ctx, "1", id, seen)
		t.check(err)
		if n := len(recs); n > 0 {
			seen = recs[n-1].Version
			if end, ok := recs[n-1].Event.(run.RunCompleted); ok {
				if end.Rounds != rounds {
					t.Fatalf("%d rounds, not %d", end.Rounds, rounds)
				}
				return float64((cpu() - began).Microseconds()) / float64(rounds)
			}
		}
		t.check(e.store.Wait(ctx, head))
	}
}

// several is the mean of n measurements, which are short.
func several(n int, f func() float64) float64 {
	sum := 0.0
	for range n {
		sum += f()
	}
	return sum / float64(n)
}

// roundsCost is G12.
func roundsCost(t *T) {
	counter := &tiktoken.Counter{}
	<-counter.Load()
	s := alternate(func() float64 { return several(4, func() float64 { return lookAround(t, counter, 50) }) },
		func() float64 { return several(20, func() float64 { return lookAround(t, counter, 10) }) })
	t.add("a round of a task of 50, CPU", "a round of a task of 10", ratio(s[0], s[1]), atMost(1.5, "x"), "%.0f / %.0f µs", s[0].median(), s[1].median())
}

// parkedRun is G13: what the heap has less when runner and commands are gone and
// only the log is left, for each run that waited for a person.
func parkedRun(t *T) {
	const runs = 5000
	def := look
	def.Approval = true
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var goroutines int
	s := alternate(func() float64 {
		e := startEngine(t, nil, 3, def)
		before := runtime.NumGoroutine()
		for range runs {
			_, err := e.post(context.Background())
			t.check(err)
		}
		for e.runner.Parked() < runs || e.runner.Active() > 0 {
			time.Sleep(time.Millisecond)
		}
		goroutines = runtime.NumGoroutine() - before
		with := heap()
		e.end()
		store := e.store
		e = nil
		without := heap()
		runtime.KeepAlive(store)
		return (with - without) / runs
	})
	t.add("memory of a run that waits for a person", "the same heap without runner", s[0].median()/1024, atMost(1, "KB"), "%d of them have %d goroutines", runs, goroutines)
}

// counted counts the bytes that are counted.
type counted struct {
	handlers.TokenCounter
	bytes atomic.Int64
}

func (c *counted) Count(text string) int {
	c.bytes.Add(int64(len(text)))
	return c.TokenCounter.Count(text)
}

// childLoader is the argument of a process that loads the vocabulary, which a
// process does once.
const childLoader = "child-loader"

func loaderChild() {
	began := time.Now()
	<-(&tiktoken.Counter{}).Load()
	fmt.Println(time.Since(began).Seconds() * 1000)
}

// counting is G14.
func counting(t *T) {
	counter := &tiktoken.Counter{}
	<-counter.Load()
	bytes := func(rounds int) func() float64 {
		return func() float64 {
			c := &counted{TokenCounter: counter}
			lookAround(t, c, rounds)
			return float64(c.bytes.Load()) / float64(rounds)
		}
	}
	s := alternate(bytes(50), bytes(10))
	t.add("text counted for a round of a task of 50", "a round of a task of 10", ratio(s[0], s[1]), atMost(1.2, "x"), "%.0f / %.0f bytes", s[0].median(), s[1].median())
	self, err := os.Executable()
	t.check(err)
	l := alternate(func() float64 {
		out, err := exec.Command(self, childLoader).Output()
		t.check(err)
		return number(strings.TrimSpace(string(out)))
	})
	t.add("loading the vocabulary, in the background", "", l[0].median(), atMost(300, "ms"), "")
}

// killed is G15: the store's own test kills a process ten times and looks for
// every event that was acknowledged, and for holes.
func killed(t *T) {
	const kills = 200
	t.suite(nil, "./infra/sqlite", "-run", "^TestKill$", fmt.Sprintf("-count=%d", kills/10))
	t.add(fmt.Sprintf("kill -9 at random, %d times, 8 writers", kills), "what was acknowledged", 0, atMost(0, "lost or holes"), "")
}
