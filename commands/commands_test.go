package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/infra/memory"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

// office is what commands need: a store, agents, ids and a time that stands.
type office struct {
	*commands.Commands
	t      *testing.T
	store  event.Store
	agents map[string]agent.Agent
	mu     sync.Mutex
	n      int
}

func (o *office) Agent(_ context.Context, tenant, id string) (agent.Agent, bool, error) {
	a, ok := o.agents[tenant+"/"+id]
	return a, ok, nil
}

func (o *office) Scope(context.Context, string, agent.Agent, *session.Sources, string, bool) (commands.Scope, error) {
	return commands.Scope{}, nil
}

func (o *office) Offer(_ context.Context, _ string, _ agent.Agent, m commands.Means) ([]tool.Definition, error) {
	pay := tool.Definition{Name: "pay", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.SideEffect, Approval: true}
	if m.Workspace == "" {
		return []tool.Definition{pay}, nil
	}
	return []tool.Definition{pay, {Name: "ls", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.ReadOnly}}, nil
}

func newOffice(t *testing.T, store event.Store) *office {
	o := &office{t: t, store: store, agents: map[string]agent.Agent{
		"acme/a": {ID: "a", Name: "A", SystemPrompt: "Speak {{language}}.", Temperature: -1, MaxRounds: 7, RunTimeout: time.Minute, MaxOutput: 99}}}
	o.Commands = commands.New(store, o, func() time.Time { return t0 }, func() string {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.n++
		return fmt.Sprintf("id%04d", o.n)
	})
	return o
}

var ada = commands.Caller{Tenant: "acme", Principal: "ada", Request: "q1"}

func (o *office) opened() string {
	o.t.Helper()
	id, _, err := o.CreateSession(context.Background(), ada, "T", "D")
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

func (o *office) posted(sessionID, query string) commands.Posted {
	o.t.Helper()
	p, err := o.PostMessage(context.Background(), ada, commands.PostMessage{Session: sessionID, Query: query, Agent: "a"})
	if err != nil {
		o.t.Fatal(err)
	}
	return p
}

// do gives commands to a run as a worker would.
func (o *office) do(r *commands.Run, c ...run.Command) {
	o.t.Helper()
	if _, err := r.Do(context.Background(), ada, "test", func(run.State) ([]run.Command, error) { return c, nil }); err != nil {
		o.t.Fatal(err)
	}
}

func claim(attempt int) run.ClaimModel {
	return run.ClaimModel{Moment: run.Moment{Now: t0, Self: "w1"}, Attempt: attempt, Purpose: run.PurposeRound, Deadline: t0.Add(time.Minute)}
}

// waiting is a run that waits for a person.
func (o *office) waiting(sessionID string) (*commands.Run, string) {
	o.t.Helper()
	p := o.posted(sessionID, "Pay.")
	r, err := o.StartRun(context.Background(), "acme", sessionID, p.Run)
	if err != nil {
		o.t.Fatal(err)
	}
	o.do(r, claim(1), run.RecordReply{Call: 1, Finish: "tool_calls", Calls: []run.ProposedCall{{ID: "c1", Name: "pay", Arguments: "{}"}}, Now: t0})
	return r, r.State.Approvals[0].Approval
}

func code(err error) string {
	if r, ok := domain.AsRejection(err); ok {
		return r.Code
	}
	return fmt.Sprint(err)
}

func TestStopRun_KeepsWhatReadersHaveSeen(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	p := o.posted(id, "?")
	r, err := o.StartRun(ctx, "acme", id, p.Run)
	if err != nil {
		t.Fatal(err)
	}
	o.do(r, claim(1))
	show := func(version int64, text string) error {
		_, err := o.Deltas.Append(ctx, "acme", run.DeltaID(p.Run, 1), event.Exactly(version), event.Envelope{Time: t0},
			event.Fact[run.Delta]{ID: o.NewID(), Event: run.Delta{Segments: []run.Segment{{Kind: run.SegAnswer, Text: text}}}})
		return err
	}
	if err := errors.Join(show(0, "The "), show(1, "answer")); err != nil {
		t.Fatal(err)
	}
	pos, err := o.StopRun(ctx, ada, id, p.Run, "enough")
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := o.store.Head(ctx); pos != head {
		t.Fatalf("%q, head %q", pos, head)
	}
	if err := show(2, " is"); !errors.Is(err, event.ErrConflict) {
		t.Fatalf("written after the fence: %v", err)
	}
	if err := r.Refresh(ctx); err != nil || r.State.Answer != "The answer" {
		t.Fatalf("%q, %v", r.State.Answer, err)
	}
	if _, err := o.StopRun(ctx, ada, id, p.Run, ""); !errors.Is(err, commands.ErrRunOver) {
		t.Fatal(err)
	}
	again, err := o.CloseDeltas(ctx, "acme", p.Run, 1)
	if err != nil || len(again) != 2 {
		t.Fatalf("%v %v", again, err)
	}
	recs, err := o.Runs.Load(ctx, "acme", p.Run, 0)
	if last := recs[len(recs)-1]; err != nil || last.Meta.Correlation != id || last.Meta.Actor != "ada" || last.Meta.Command != "StopRun" {
		t.Fatalf("%+v", last.Meta)
	}
}

func TestDeleteSession_StopsItsRun(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	r, _ := o.waiting(id)
	if _, err := o.DeleteSession(ctx, ada, id); err != nil {
		t.Fatal(err)
	}
	if err := r.Refresh(ctx); err != nil || r.State.Outcome != run.OutcomeStopped {
		t.Fatalf("%+v", r.State)
	}
}

func TestResolveApproval(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	r, approval := o.waiting(o.opened())
	for _, d := range []struct {
		by   commands.Caller
		what commands.Decision
		want error
	}{
		{ada, commands.Decision{Run: "none", Approval: approval}, run.ErrApprovalNotFound},
		{ada, commands.Decision{Run: r.ID, Approval: "none"}, run.ErrApprovalNotFound},
		{commands.Caller{Tenant: "other"}, commands.Decision{Run: r.ID, Approval: approval, Approve: true}, run.ErrApprovalNotFound},
		{ada, commands.Decision{Run: r.ID, Approval: approval, Approve: true, Args: json.RawMessage(`null`)}, run.ErrBadArguments},
	} {
		if _, err := o.ResolveApproval(ctx, d.by, d.what); !errors.Is(err, d.want) {
			t.Fatalf("%+v: %v", d.what, err)
		}
	}
	if _, err := o.ResolveApproval(ctx, ada, commands.Decision{Run: r.ID, Approval: approval, Reason: strings.Repeat("长", 3000)}); err != nil {
		t.Fatal(err)
	}
	recs, err := o.Runs.Load(ctx, "acme", r.ID, r.Version)
	if err != nil {
		t.Fatal(err)
	}
	if e := recs[0].Event.(run.ApprovalResolved); len([]rune(e.Reason)) != 2000 || e.By != "ada" || e.Outcome != run.Rejected {
		t.Fatalf("%d runes, %+v", len([]rune(e.Reason)), e.Outcome)
	}
}

func TestP81_StopAndApproveAtOnce(t *testing.T) {
	o := newOffice(t, memory.New())
	for range 100 {
		id := o.opened()
		r, approval := o.waiting(id)
		var wg sync.WaitGroup
		var stop, approve error
		wg.Go(func() { _, stop = o.StopRun(context.Background(), ada, id, r.ID, "") })
		wg.Go(func() {
			_, approve = o.ResolveApproval(context.Background(), ada, commands.Decision{Run: r.ID, Approval: approval, Approve: true})
		})
		wg.Wait()
		if stop != nil || approve != nil && !errors.Is(approve, run.ErrAlreadyResolved) {
			t.Fatalf("stop: %v, approve: %v", stop, approve)
		}
		recs, err := o.Runs.Load(context.Background(), "acme", r.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		var resolved []string
		for _, rec := range recs {
			if e, ok := rec.Event.(run.ApprovalResolved); ok {
				resolved = append(resolved, e.Outcome)
			}
		}
		want := map[bool]string{true: run.Approved, false: run.Canceled}[approve == nil]
		if len(resolved) != 1 || resolved[0] != want || recs[len(recs)-1].Type != "RunStopped" {
			t.Fatalf("resolved as %v, approve: %v", resolved, approve)
		}
	}
}

// crowded is a store where somebody else is always faster.
type crowded struct {
	event.Store
	tries int
}

func (c *crowded) Append(context.Context, event.Stream, event.Expect, ...event.New) (event.Appended, error) {
	c.tries++
	return event.Appended{}, event.ErrConflict
}

func TestLostRaces_EndAsAConflict(t *testing.T) {
	c := &crowded{Store: memory.New()}
	o := newOffice(t, c)
	if _, _, err := o.CreateSession(t.Context(), ada, "T", ""); !errors.Is(err, event.ErrConflict) || c.tries != 20 {
		t.Fatalf("%d tries, %v", c.tries, err)
	}
	c.tries = 0
	r, err := o.OpenRun(t.Context(), "acme", "r1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Do(t.Context(), ada, "test", func(run.State) ([]run.Command, error) {
		return []run.Command{run.Start{RunStarted: run.RunStarted{Run: "r1", Session: "s1", Query: "?", At: t0}}}, nil
	})
	if !errors.Is(err, event.ErrConflict) || c.tries != 20 || r.Version != 0 || r.State.Begun() {
		t.Fatalf("%d tries, version %d, %v", c.tries, r.Version, err)
	}
}

func TestDo_DecidesAgainAfterALostRace(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	p := o.posted(id, "?")
	mine, err := o.StartRun(ctx, "acme", id, p.Run)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := o.OpenRun(ctx, "acme", p.Run)
	if err != nil {
		t.Fatal(err)
	}
	o.do(theirs, claim(1))
	_, err = mine.Do(ctx, ada, "test", func(run.State) ([]run.Command, error) { return []run.Command{claim(1)}, nil })
	if !errors.Is(err, run.ErrNotDue) || mine.Version != 2 || mine.State.Model == nil {
		t.Fatalf("version %d, %v", mine.Version, err)
	}
}
