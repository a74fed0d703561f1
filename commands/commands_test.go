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
	"refold/tests/scenario"
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

func (o *office) Offer(_ context.Context, _ string, _ agent.Agent, workspace string) ([]tool.Definition, error) {
	pay := tool.Definition{Name: "pay", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.SideEffect, Approval: true}
	if workspace == "" {
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
	tools, _ := o.Offer(ctx, "acme", agent.Agent{}, "/w")
	tools[0], tools[1] = tools[1], tools[0] // sorted
	scenario.Equal(t, "start", run.RunStarted{Run: p.Run, Session: id, UserMessage: p.Message, Request: "q1", Principal: "ada", Channel: "web",
		Query: "现在？", Language: "zh", Agent: run.Agent{ID: "a", Name: "A", SystemPrompt: "Speak Chinese.", Model: "big", Temperature: agent.DefaultTemperature},
		AgentHash: r.State.Start.AgentHash, Tools: tools, Workspace: "/w", History: runs[2:], Limits: run.Limits{MaxRounds: 7, MaxOutput: 99},
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
