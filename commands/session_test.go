package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/tests/scenario"
)

func TestSessions(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	if _, err := o.UpdateSession(ctx, ada, id, "T2", ""); err != nil {
		t.Fatal(err)
	}
	s, err := o.Session(ctx, "acme", id)
	if err != nil || s.Title != "T2" || s.Created.Principal != "ada" || !s.Created.At.Equal(t0) {
		t.Fatalf("%+v %v", s, err)
	}
	pos, err := o.DeleteSession(ctx, ada, id)
	if head, _ := o.store.Head(ctx); err != nil || pos != head {
		t.Fatalf("%q, head %q, %v", pos, head, err)
	}
	for _, err := range []error{
		func() error { _, err := o.Session(ctx, "acme", id); return err }(),
		func() error { _, err := o.UpdateSession(ctx, ada, id, "T3", ""); return err }(),
		func() error { _, err := o.DeleteSession(ctx, ada, id); return err }(),
		func() error { _, err := o.DeleteSession(ctx, ada, "none"); return err }(),
	} {
		if !errors.Is(err, session.ErrNotFound) {
			t.Fatal(err)
		}
	}
}

func TestPostMessage_Refusals(t *testing.T) {
	o := newOffice(t, memory.New())
	id := o.opened()
	head, _ := o.store.Head(t.Context())
	for want, p := range map[string]commands.PostMessage{
		"empty_query":       {Session: id, Query: " \n", Agent: "a"},
		"bad_query":         {Session: id, Query: "\xff", Agent: "a"},
		"query_too_long":    {Session: id, Query: strings.Repeat("长", session.MaxQuery+1), Agent: "a"},
		"agent_not_found":   {Session: id, Query: "?", Agent: "b"},
		"session_not_found": {Session: "none", Query: "?", Agent: "a"},
	} {
		if _, err := o.PostMessage(t.Context(), ada, p); code(err) != want {
			t.Fatalf("%s: %v", want, err)
		}
	}
	stranger := commands.Caller{Tenant: "other"}
	o.agents["other/a"] = o.agents["acme/a"]
	if _, err := o.PostMessage(t.Context(), stranger, commands.PostMessage{Session: id, Query: "?", Agent: "a"}); !errors.Is(err, session.ErrNotFound) {
		t.Fatal(err)
	}
	if now, _ := o.store.Head(t.Context()); now != head {
		t.Fatal("something was written")
	}
	if _, err := o.PostMessage(t.Context(), ada, commands.PostMessage{Session: id, Query: strings.Repeat("长", session.MaxQuery), Agent: "a"}); err != nil {
		t.Fatal(err)
	}
}

func TestPostMessage_OneRunAtATime(t *testing.T) {
	o := newOffice(t, memory.New())
	id := o.opened()
	first := o.posted(id, "one")
	post := func() error {
		_, err := o.PostMessage(t.Context(), ada, commands.PostMessage{Session: id, Query: "two", Agent: "a"})
		return err
	}
	busy := func() {
		t.Helper()
		r, ok := domain.AsRejection(post())
		if !ok || r.Code != "run_in_progress" || r.Details["run_id"] != first.Run {
			t.Fatalf("%+v", r)
		}
	}
	busy() // also before the run was started
	if _, err := o.StartRun(t.Context(), "acme", id, first.Run); err != nil {
		t.Fatal(err)
	}
	busy()
	if _, err := o.StopRun(t.Context(), ada, id, first.Run, ""); err != nil {
		t.Fatal(err)
	}
	if err := post(); err != nil {
		t.Fatal(err)
	}
}

func TestPostMessage_TwoAtOnce(t *testing.T) {
	o := newOffice(t, memory.New())
	id := o.opened()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = o.PostMessage(context.Background(), ada, commands.PostMessage{Session: id, Query: "?", Agent: "a"})
		})
	}
	wg.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else if !errors.Is(err, session.ErrRunInProgress) {
			t.Fatal(err)
		}
	}
	if taken != 1 {
		t.Fatalf("%d were taken", taken)
	}
}

func TestStartRun_IsASnapshot(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	var runs []string
	for n := range run.HistoryTurns + 2 {
		p := o.posted(id, fmt.Sprint("question ", n))
		if _, err := o.StopRun(ctx, ada, id, p.Run, ""); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, p.Run)
	}
	p, err := o.PostMessage(ctx, ada, commands.PostMessage{Session: id, Query: "现在？", Agent: "a", Model: "big", Channel: "web", Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := o.StartRun(ctx, "acme", id, p.Run)
	if err != nil {
		t.Fatal(err)
	}
	tools, _ := o.Offer(ctx, "acme", agent.Agent{}, commands.Means{Workspace: "/w"})
	tools[0], tools[1] = tools[1], tools[0] // sorted
	scenario.Equal(t, "start", run.RunStarted{Run: p.Run, Session: id, UserMessage: p.Message, Request: "q1", Principal: "ada", Channel: "web",
		Query: "现在？", Language: "zh", Agent: run.Agent{ID: "a", Name: "A", SystemPrompt: "Speak Chinese.", Model: "big", Temperature: agent.DefaultTemperature},
		AgentHash: r.State.Start.AgentHash, Tools: tools, Workspace: "/w", History: runs[2:], Limits: run.Limits{MaxRounds: 7, MaxOutput: 99, ContextTokens: 200_000},
		Deadline: t0.Add(time.Minute).Truncate(time.Microsecond), At: t0}, *r.State.Start)
	if r.State.Start.AgentHash == "" {
		t.Fatal("no hash")
	}
	again, err := o.StartRun(ctx, "acme", id, p.Run)
	if err != nil || again.Version != 1 {
		t.Fatalf("started twice: version %d, %v", again.Version, err)
	}
}

func TestStartRun_Refusals(t *testing.T) {
	o := newOffice(t, memory.New())
	id := o.opened()
	if _, err := o.StartRun(t.Context(), "acme", id, "none"); !errors.Is(err, run.ErrNotStarted) {
		t.Fatal(err)
	}
	// The agent was deleted since the message was posted: the run starts and fails
	// in the open, instead of never ending.
	p := o.posted(id, "?")
	delete(o.agents, "acme/a")
	r, err := o.StartRun(t.Context(), "acme", id, p.Run)
	if err != nil || !r.State.Begun() || len(r.State.Start.Tools) != 0 {
		t.Fatalf("%+v %v", r.State, err)
	}
}
