//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
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

// loadAndFold is G4.
func loadAndFold(t *T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "refold.db")
	before, err := sqlite.Open(ctx, path, sqlite.Options{})
	t.check(err)
	log := event.Log[run.Event]{Store: before.Events(), Codec: run.Codec, Category: run.Category}
	events := longRun(1000)
	facts := make([]event.Fact[run.Event], len(events))
	for i, e := range events {
		facts[i] = event.Fact[run.Event]{ID: fmt.Sprint("e", i), Event: e}
	}
	_, err = log.Append(ctx, "1", "r", event.NoStream(), event.Envelope{Time: time.Now()}, facts...)
	t.check(err)
	t.check(before.Close())
	log.Store = openSQLite(t, path).Events() // what a process has just written itself it reads from memory
	rate := func(f func()) func() float64 {
		return func() float64 {
			const times = 100
			start := time.Now()
			for range times {
				f()
			}
			return times * 1000 / time.Since(start).Seconds()
		}
	}
	r := alternate(rate(func() {
		recs, err := log.Load(ctx, "1", "r", 0)
		t.check(err)
		var s run.State
		for _, r := range recs {
			s = run.Evolve(s, r.Event)
		}
		if s.ModelCalls == 0 {
			t.Fatal("nothing was folded")
		}
	}), rate(func() {
		raws, err := log.Store.Read(ctx, log.Stream("1", "r"), 0, 1000)
		if err != nil || len(raws) != 1000 {
			t.Fatal(len(raws), err)
		}
	}))
	t.add("load and fold of 1,000 events", "read-only loop", ratio(r[0], r[1]), atLeast(0.25, "x"), "%.0f / %.0f thousand events a second", r[0].median()/1000, r[1].median()/1000)
	t.add("load and fold of 1,000 events", "", r[0].median(), atLeast(200_000, "/s"), "")
}
