//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/app"
	"refold/infra/sqlite"
	"refold/projections"
	"refold/tests/bench/load"
)

// What is stored: sessions with a turn of two rounds each, and in two more
// sessions a conversation of many turns and one of few.
const (
	storedSessions = 100_000
	storedEvents   = storedSessions * perSession
	perSession     = 11
	longTurns      = 2500
	shortTurns     = 5
)

// stored is a data directory with more than a million events, made when the
// first row asks for it, unless it is there already.
type stored struct {
	dir   string
	ready bool
}

// open gives the directory, whose read models are up to date.
func (s *stored) open(t *T) string {
	if s.ready {
		return s.dir
	}
	t.check(os.MkdirAll(s.dir, 0o700))
	db, err := sqlite.Open(context.Background(), app.DatabaseFile(s.dir), sqlite.Options{})
	t.check(err)
	defer func() { t.check(db.Close()) }()
	began := time.Now()
	whole := filepath.Join(s.dir, "whole") // what is left of a fill that was cut off is not
	if _, err := os.Stat(whole); err != nil {
		t.check(fill(db.Events()))
		t.check(os.WriteFile(whole, nil, 0o600))
	}
	filled := time.Now()
	t.check(project(db))
	t.Logf("\n         %s events stored in %.0f s, read models made in %.0f s", thousands(storedEvents), filled.Sub(began).Seconds(), time.Since(filled).Seconds())
	s.ready = true
	return s.dir
}

// project brings every read model up to date.
func project(db *sqlite.DB) error {
	ctx, stop := context.WithCancel(context.Background())
	head, err := db.Events().Head(ctx)
	if err != nil {
		stop()
		return err
	}
	e := &projections.Engine{Store: db.Events(), Documents: db.Documents(), Log: slog.New(slog.DiscardHandler), List: projections.All()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	for _, p := range e.List {
		err = errors.Join(err, e.Await(ctx, p, head))
	}
	stop()
	<-done
	return err
}

// storedTime is when a stored turn began.
func storedTime(n int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

func storedID(kind, n int) string { return fmt.Sprintf("0199a3c1-%04x-7000-8000-%012x", kind, n) }

// longID and shortID are the sessions of many and of few turns.
var longID, shortID = storedID(1, storedSessions), storedID(1, storedSessions+1)

func fill(store event.Store) error {
	w := &filler{store: store}
	var next atomic.Int64
	errs := make([]error, 128)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < storedSessions && errs[i] == nil; n = int(next.Add(1)) - 1 {
				errs[i] = w.session(storedID(1, n), n, 1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(w.session(longID, storedSessions, longTurns), w.session(shortID, storedSessions+longTurns, shortTurns))
}

// filler writes sessions as the engine would.
type filler struct {
	store event.Store
	ids   atomic.Int64
}

// session writes a session of some turns, which are numbered from n.
func (w *filler) session(id string, n, turns int) error {
	ctx, now := context.Background(), storedTime(n)
	log := event.Log[session.Event]{Store: w.store, Codec: session.Codec, Category: session.Category}
	facts := []event.Fact[session.Event]{{ID: w.id(), Event: session.SessionCreated{Session: id, Title: fmt.Sprint("Conversation ", n), At: now}}}
	for i := range turns {
		facts = append(facts, event.Fact[session.Event]{ID: w.id(), Event: session.MessagePosted{Message: storedID(2, n+i), Run: storedID(3, n+i),
			Query: fmt.Sprintf("What does part %d hold?", n+i), Agent: "smart-reasoning", At: storedTime(n + i)}})
	}
	for v := 0; v < len(facts); v += event.MaxBatch {
		if _, err := log.Append(ctx, "1", id, event.Exactly(int64(v)), event.Envelope{Time: now, Meta: event.Metadata{Correlation: id}},
			facts[v:min(v+event.MaxBatch, len(facts))]...); err != nil {
			return err
		}
	}
	for i := range turns {
		if err := w.run(id, n+i); err != nil {
			return err
		}
	}
	return nil
}

func (w *filler) id() string { return storedID(4, int(w.ids.Add(1))) }

func (w *filler) run(sessionID string, n int) error {
	at, id := storedTime(n), storedID(3, n)
	usage := run.Usage{Prompt: 100, Completion: 20, Total: 120}
	answer := fmt.Sprintf("Part %d holds nothing unusual; everything is where it should be.", n)
	events := []run.Event{
		run.RunStarted{Run: id, Session: sessionID, UserMessage: storedID(2, n), Query: fmt.Sprintf("What does part %d hold?", n), Language: "en",
			Agent: run.Agent{ID: "smart-reasoning", SystemPrompt: "You look at parts."}, Limits: run.Limits{MaxRounds: 50}, At: at},
		run.ModelCallStarted{Call: 1, Attempt: 1, Purpose: run.PurposeRound, Owner: "bench", Deadline: at.Add(time.Minute), At: at},
		run.Thought{Call: 1, Purpose: run.PurposeRound, Text: "Looking at the part.", Finish: "tool_calls", Model: "scripted", Usage: usage, Shown: run.Shown{Cuts: "a20"}, At: at},
		run.ToolCallRequested{Call: "call_1", Name: "look", Args: json.RawMessage(load.LookArgs(n)), Digest: "d", At: at},
		run.ToolStarted{Call: "call_1", Attempt: 1, Owner: "bench", Key: id + "/call_1", Deadline: at.Add(time.Minute), At: at},
		run.ToolCompleted{Call: "call_1", Attempt: 1, Success: true, Output: load.LookOutput, At: at},
		run.ModelCallStarted{Call: 2, Round: 1, Attempt: 1, Purpose: run.PurposeRound, Owner: "bench", Deadline: at.Add(time.Minute), At: at},
		run.Thought{Call: 2, Round: 1, Purpose: run.PurposeRound, Text: answer, Finish: "stop", Model: "scripted", Usage: usage, Shown: run.Shown{Cuts: fmt.Sprint("a", len(answer))}, At: at},
		run.RunCompleted{Answer: answer, Call: 2, EndReason: run.EndNatural, Usage: usage.Add(usage), Rounds: 2, At: at},
	}
	facts := make([]event.Fact[run.Event], len(events))
	for i, e := range events {
		facts[i] = event.Fact[run.Event]{ID: w.id(), Event: e}
	}
	log := event.Log[run.Event]{Store: w.store, Codec: run.Codec, Category: run.Category}
	_, err := log.Append(context.Background(), "1", id, event.NoStream(), event.Envelope{Time: at, Meta: event.Metadata{Correlation: sessionID}}, facts...)
	return err
}

// longSession compares a session of 5,000 messages with one of 10.
func longSession(t *T) {
	s := t.serve(t.store.open(t), t.model(1))
	history := func(id, query string) func() float64 {
		return func() float64 {
			c, err := dial(s.addr, "/api/v1/messages/"+id+"/load?limit=10"+query)
			t.check(err)
			defer c.conn.Close()
			return timed(t, 50, func() error {
				n, err := c.get()
				if err == nil && n < 1000 {
					err = fmt.Errorf("an answer of %d bytes", n)
				}
				return err
			})
		}
	}
	middle := "&before_time=" + storedTime(storedSessions+longTurns/2).Format(time.RFC3339)
	p := alternate(history(longID, ""), history(shortID, ""), history(longID, middle))
	t.add("newest 10 of a history of 5,000 messages, p50", "all of one of 10", ratio(p[0], p[1]), atMost(2, "x"), "%.2f / %.2f ms", p[0].median(), p[1].median())
	t.add("10 from its middle", "all of one of 10", ratio(p[2], p[1]), atMost(2, "x"), "%.2f ms", p[2].median())
	ask := func(id string) func() float64 {
		return func() float64 { return timed(t, 5, func() error { return load.Ask(s.base(), id, nil) }) }
	}
	a := alternate(ask(longID), ask(shortID))
	t.add("a message and its answer there, p50", "10 messages", ratio(a[0], a[1]), atMost(2, "x"), "%.1f / %.1f ms", a[0].median(), a[1].median())
}
