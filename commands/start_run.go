package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
)

// StartRun starts the run that a posted message asked for, with a snapshot of
// everything that its later decisions need. Starting it again changes nothing.
func (c *Commands) StartRun(ctx context.Context, tenant, sessionID, runID string) (*Run, error) {
	r, err := c.OpenRun(ctx, tenant, runID)
	if err != nil || r.State.Begun() {
		return r, err
	}
	h, err := c.loadSession(ctx, tenant, sessionID)
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", runID, err)
	}
	s := h.state
	post, place, ok := s.Post(runID)
	if !ok {
		return nil, run.ErrNotStarted
	}
	a, ok, err := c.Catalog.Agent(ctx, tenant, post.Agent)
	if err != nil {
		return nil, err
	}
	if !ok { // deleted since the message was posted
		a = agent.Agent{ID: post.Agent, Name: post.Agent}
	}
	if post.Model != "" {
		a.Model = post.Model
	}
	if w, has := c.Catalog.(Windows); has && a.MaxContextTokens <= 0 {
		a.MaxContextTokens = w.ContextTokens(a.Model)
	}
	var tools []tool.Definition
	means := Means{Workspace: post.Workspace, Web: a.Web && post.Web}
	if ok {
		if means.Scope, err = c.Catalog.Scope(ctx, tenant, a, post.Sources, post.Workspace, false); err != nil {
			return nil, fmt.Errorf("find the knowledge of run %s: %w", runID, err)
		}
		if tools, err = c.Catalog.Offer(ctx, tenant, a, means); err != nil {
			return nil, fmt.Errorf("choose the tools of run %s: %w", runID, err)
		}
		means.Web = means.Web && slices.ContainsFunc(tools, func(d tool.Definition) bool { return d.Name == run.StageWeb })
	}
	by := Caller{Tenant: tenant, Principal: post.Principal, Request: post.Request, Trace: traceOf(h.recs, runID)}
	_, err = r.Do(ctx, by, "StartRun", one(run.Start{RunStarted: c.snapshot(s, post, place, a, tools, means)}))
	if errors.Is(err, run.ErrAlreadyStarted) {
		err = r.Refresh(ctx)
	}
	return r, err
}

// Windows is what a Catalog may also know: how many tokens a request to a model
// and its reply may take; 0 = the default.
type Windows interface{ ContextTokens(model string) int }

// traceOf is the trace of the request that a run answers: that of its message,
// of the first fact of it if it has waited in the queue.
func traceOf(recs []event.Recorded[session.Event], runID string) string {
	for _, rec := range recs {
		switch e := rec.Event.(type) {
		case session.MessagePosted:
			if e.Run == runID {
				return rec.Meta.Trace
			}
		case session.MessageQueued:
			if e.Run == runID {
				return rec.Meta.Trace
			}
		}
	}
	return ""
}

func (c *Commands) snapshot(s session.State, post session.MessagePosted, place int, a agent.Agent, tools []tool.Definition, means Means) run.RunStarted {
	now := c.Now().UTC()
	language := run.LanguageOf(post.Query)
	if a.Temperature < 0 {
		a.Temperature = agent.DefaultTemperature
	}
	e := run.RunStarted{
		Run: post.Run, Session: s.Created.Session, UserMessage: post.Message, Request: post.Request, Principal: post.Principal,
		Channel: post.Channel, Query: post.Query, Language: language,
		Agent: run.Agent{ID: a.ID, Name: a.Name, SystemPrompt: agent.Render(a.SystemPrompt, agent.Context{Now: now, Language: language, WebSearch: means.Web}),
			Model: a.Model, Fallbacks: a.Fallbacks, Temperature: a.Temperature, MaxTokens: a.MaxTokens, Thinking: a.Thinking, ParallelTools: a.ParallelTools, KeepRetrieval: a.RetainRetrieval, Uncited: a.Uncited},
		AgentHash: a.Hash(), Tools: tools, Workspace: post.Workspace, Images: post.Images, Files: post.Files,
		Limits: run.Limits{MaxRounds: a.MaxRounds, ModelTimeout: a.ModelTimeout, ApprovalTimeout: a.ApprovalTimeout, MaxOutput: a.MaxOutput,
			ContextTokens: contextTokens(a.MaxContextTokens)},
		Scope: means.Scope.Scope, Knowledge: means.Scope.Knowledge, Pinned: means.Scope.Pinned, Retrieval: a.Retrieval, Web: means.Web,
		At: now,
	}
	e.Retrieval.Pinned = len(e.Pinned) > 0
	if a.Mode == agent.ModeQuick {
		q := run.Quick(a.Quick)
		e.Mode, e.Quick = run.ModeQuick, &q
	}
	for i := place - 1; i >= 0 && len(e.History) < historyTurns(a.HistoryTurns); i-- {
		if s.Kept(s.Posts[i]) {
			e.History = append(e.History, s.Posts[i].Run)
		}
	}
	slices.Reverse(e.History)
	if a.RunTimeout > 0 {
		e.Deadline = now.Add(a.RunTimeout).Truncate(time.Microsecond)
	}
	return e
}

// historyTurns is how many earlier turns a run sees.
func historyTurns(n int) int {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return run.HistoryTurns
	}
	return min(n, run.MaxHistoryTurns)
}

func contextTokens(n int) int {
	if n <= 0 {
		return run.DefaultContextTokens
	}
	return n
}
