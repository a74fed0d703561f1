package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/infra/sqlite"
	"refold/tests/bench/load"
)

// longRun is a run of n events, as the engine would write it.
func longRun(n int) []run.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := []run.Event{run.RunStarted{Run: "r", Session: "s", Query: "Look at all parts.", Language: "en", At: at,
		Tools: []tool.Definition{load.Look{}.Definition()}, Limits: run.Limits{MaxRounds: 100}}}
	for i := 0; len(out) < n; i++ {
		call := "call_" + strconv.Itoa(i)
		out = append(out,
			run.ModelCallStarted{Call: i + 1, Round: i, Attempt: 1, Purpose: run.PurposeRound, Owner: "bench", Deadline: at.Add(time.Minute), At: at},
			run.Thought{Call: i + 1, Round: i, Purpose: run.PurposeRound, Text: strings.Repeat("Looking at one more part. ", 10), Finish: "tool_calls", At: at},
			run.ToolCallRequested{Call: call, Round: i, Name: "look", Args: json.RawMessage(`{"part":1}`), Digest: "d" + call, At: at},
			run.ToolStarted{Call: call, Attempt: 1, Owner: "bench", Key: "r/" + call, Deadline: at.Add(time.Minute), At: at},
			run.ToolCompleted{Call: call, Attempt: 1, Success: true, Output: strings.Repeat(load.LookOutput+"\n", 8), At: at})
	}
	return out[:n]
}

// BenchmarkFold loads and folds a stream of 1,000 events, beside reading it only.
func BenchmarkFold(b *testing.B) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, b.TempDir()+"/log.db", sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	log := event.Log[run.Event]{Store: db.Events(), Codec: run.Codec, Category: run.Category}
	events := longRun(1000)
	facts := make([]event.Fact[run.Event], len(events))
	for i, e := range events {
		facts[i] = event.Fact[run.Event]{ID: fmt.Sprint("e", i), Event: e}
	}
	if _, err := log.Append(ctx, "1", "r", event.NoStream(), event.Envelope{Time: time.Now()}, facts...); err != nil {
		b.Fatal(err)
	}
	rate := func(b *testing.B) { b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s") }
	b.Run("read-only", func(b *testing.B) {
		for b.Loop() {
			raws, err := log.Store.Read(ctx, log.Stream("1", "r"), 0, 1000)
			if err != nil || len(raws) != 1000 {
				b.Fatal(len(raws), err)
			}
		}
		rate(b)
	})
	b.Run("load-and-fold", func(b *testing.B) {
		for b.Loop() {
			recs, err := log.Load(ctx, "1", "r", 0)
			if err != nil {
				b.Fatal(err)
			}
			var s run.State
			for _, r := range recs {
				s = run.Evolve(s, r.Event)
			}
			if s.ModelCalls == 0 {
				b.Fatal("nothing folded")
			}
		}
		rate(b)
	})
}
