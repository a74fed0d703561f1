package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/memory"
	"refold/infra/tiktoken"
)

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

func (a oneAgent) Offer(context.Context, string, agent.Agent, string) ([]tool.Definition, error) {
	return []tool.Definition{a.def}, nil
}

// lookAround runs one turn of a number of rounds on a store in memory and gives
// the processor time that a round took.
func lookAround(b *testing.B, counter handlers.TokenCounter, rounds int) time.Duration {
	b.Helper()
	def := tool.Definition{Name: "look", Description: "Look at a part.", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.ReadOnly, Untrusted: true}
	store := memory.New()
	c := commands.New(store, oneAgent{def}, time.Now, uuid.NewString)
	r := &handlers.Runner{Commands: c, Store: store, Models: windowed{rounds}, Tools: bulky{def}, Blobs: &memory.Blobs{}, Tokens: counter,
		Clock: handlers.SystemClock{}, Log: slog.New(slog.DiscardHandler), Self: "bench", Sole: true}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, "", nil) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	by := commands.Caller{Tenant: "1", Principal: "u", Request: "q"}
	session, _, err := c.CreateSession(ctx, by, "T", "")
	if err != nil {
		b.Fatal(err)
	}
	began := cpu()
	posted, err := c.PostMessage(ctx, by, commands.PostMessage{Session: session, Query: "Look at all parts.", Agent: "a"})
	if err != nil {
		b.Fatal(err)
	}
	seen := int64(0)
	for {
		head, err := store.Head(ctx)
		if err != nil {
			b.Fatal(err)
		}
		recs, err := c.Runs.Load(ctx, "1", posted.Run, seen)
		if err != nil {
			b.Fatal(err)
		}
		if n := len(recs); n > 0 {
			seen = recs[n-1].Version
			if end, ok := recs[n-1].Event.(run.RunCompleted); ok {
				if end.Rounds != rounds {
					b.Fatalf("%d rounds, not %d", end.Rounds, rounds)
				}
				return (cpu() - began) / time.Duration(rounds)
			}
		}
		if err := store.Wait(ctx, head); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkG12Rounds compares the cost of a round in a turn of 50 with one in a
// turn of 10; the pairs alternate. The target is 1.5 at most.
func BenchmarkG12Rounds(b *testing.B) {
	counter := &tiktoken.Counter{}
	<-counter.Load()
	var few, many []time.Duration
	for b.Loop() {
		few = append(few, lookAround(b, counter, 10))
		many = append(many, lookAround(b, counter, 50))
	}
	slices.Sort(few)
	slices.Sort(many)
	a, z := few[len(few)/2], many[len(many)/2]
	b.ReportMetric(float64(a.Microseconds()), "cpu-µs/round-of-10")
	b.ReportMetric(float64(z.Microseconds()), "cpu-µs/round-of-50")
	b.ReportMetric(float64(z)/float64(a), "ratio")
}

// BenchmarkG14Loader loads the vocabulary, which a process does once, in the
// background. Only the first load of the process is measured: the target is 300 ms.
func BenchmarkG14Loader(b *testing.B) {
	for b.Loop() {
		<-(&tiktoken.Counter{}).Load() // what is loaded already costs nothing
	}
	b.ReportMetric(float64(firstLoad.Microseconds())/1000, "ms-to-load")
}

// firstLoad is measured before anything else of the process counts tokens.
var firstLoad = func() time.Duration {
	began := time.Now()
	<-(&tiktoken.Counter{}).Load()
	return time.Since(began)
}()

// BenchmarkG14Count counts a page of text.
func BenchmarkG14Count(b *testing.B) {
	counter := &tiktoken.Counter{}
	<-counter.Load()
	text := strings.Repeat("This part holds nothing unusual; everything is where it should be. ", 60)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		counter.Count(text)
	}
}
