package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
)

// actor moves one run while it has work: it folds the run's stream, asks Due
// what is owed, claims it, acts in goroutines, and reports. Reports and the
// claims that follow from them are one append. It holds nothing that the log
// does not have.
type actor struct {
	runner  *Runner
	key     runKey
	session string
	woken   chan struct{}
	seen    atomic.Int64 // newest version that anybody told us about

	r        *commands.Run
	requests atomic.Pointer[prompt] // builds the requests; nil until the earlier turns are read
	inflight map[string]*effort
	done     chan finished
	folded   atomic.Int64
	trace    atomic.Pointer[origin]
	trouble  string // of the newest attempt at the model that failed

	mu     sync.Mutex
	silent map[int]bool // model calls whose transient stream was never written
}

// effort is work in progress.
type effort struct {
	cancel  context.CancelCauseFunc
	giveUp  run.Command // hands the claim back; nil if it must be waited for
	overdue atomic.Bool // it works longer than its claim allows
}

type finished struct {
	name   string
	report run.Command
}

var (
	errOver     = errors.New("the run has moved on")
	errHandBack = errors.New("the process is ending; the claim is handed back")
)

func (a *actor) poke(version int64) {
	for {
		old := a.seen.Load()
		if version <= old || a.seen.CompareAndSwap(old, version) {
			break
		}
	}
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

func (a *actor) version() int64 { return a.folded.Load() }

// run works until the run is over or waits.
func (a *actor) run(ctx context.Context) {
	a.inflight, a.done = map[string]*effort{}, make(chan finished)
	defer func() {
		if p := recover(); p != nil {
			a.log().Error("panic while moving a run; it is looked at again later", "panic", p, "stack", string(debug.Stack()))
			a.cancelAll(errOver)
			a.retryLater(ctx, time.Minute)
		}
	}()
	var pause time.Duration
	var reports []run.Command
	idle := 0
	for {
		before := a.version()
		left, err := a.step(ctx, &reports)
		if err == nil && len(a.inflight) == 0 && !left {
			// Something is due, or was appended by others meanwhile: look again.
			if a.version() != before {
				idle = 0
				continue
			}
			if idle++; idle < 10 {
				continue
			}
			err = errors.New("work is due that nobody can begin")
		}
		switch {
		case left:
			return
		case err != nil:
			pause = min(max(2*pause, 100*time.Millisecond), 10*time.Second)
			a.log().Error("move a run", "error", err, "again_in", pause)
			if a.isEnding() { // what could not be written is found by the next start
				a.cancelAll(errHandBack)
				a.forget()
				return
			}
			a.runner.sleep(ctx, pause)
			continue
		}
		pause, idle = 0, 0
		select {
		case f := <-a.done:
			delete(a.inflight, f.name)
			reports = appendReport(reports, f)
			reports = append(reports, a.more()...)
		case <-a.woken:
		case <-a.ending():
			a.handBack()
			if len(a.inflight) == 0 {
				a.forget()
				return
			}
			f := <-a.done
			delete(a.inflight, f.name)
			reports = appendReport(reports, f)
		}
	}
}

// appendReport leaves out work that has nothing true to report.
func appendReport(to []run.Command, f finished) []run.Command {
	if f.report == nil {
		return to
	}
	return append(to, f.report)
}

// more takes the reports that are ready, so that they share an append.
func (a *actor) more() []run.Command {
	var out []run.Command
	for {
		select {
		case f := <-a.done:
			delete(a.inflight, f.name)
			out = appendReport(out, f)
		default:
			return out
		}
	}
}

// step brings the log and the work in progress in line. It answers true when
// the actor has left.
func (a *actor) step(ctx context.Context, reports *[]run.Command) (bool, error) {
	if err := a.open(ctx); err != nil {
		if rej, ok := domain.AsRejection(err); ok {
			a.log().Error("a run can't be started", "code", rej.Code, "error", err)
			a.forget()
			return true, nil
		}
		return false, err
	}
	if recovered, err := a.recover(ctx, *reports); err != nil {
		return false, err
	} else if len(recovered) > 0 {
		*reports = append(*reports, recovered...)
	}
	events, err := a.r.Decided(ctx, a.caller(), "runner", func(s run.State) ([]run.Event, run.State, error) {
		return a.plan(ctx, s, *reports)
	})
	if err != nil {
		return false, err
	}
	*reports = nil
	a.folded.Store(a.r.Version)
	a.begin(ctx, events)
	s := a.r.State
	a.cancelStale(s)
	if len(a.inflight) > 0 {
		return false, nil
	}
	if s.Over() {
		a.finish(ctx)
		return a.runner.leave(ctx, a, false, parking{}, time.Time{}), nil
	}
	m := a.moment()
	due := run.Due(s, m)
	missing := a.missing(s, due)
	if missing != "" {
		due = nil
	}
	if (len(due) > 0 || len(a.abandoned(nil)) > 0) && !a.isEnding() {
		return false, nil
	}
	return a.runner.leave(ctx, a, true, parking{missing: missing, why: a.waits(s, m, missing)}, run.NextWake(s, m.Now)), nil
}

// missing is why a model call that is due can't be begun here: this process does
// not have the run's model, nor one to fall back on. "" if that is not so. The
// run waits for a process that has it; a restart with another configuration
// must not end runs.
func (a *actor) missing(s run.State, due []run.Effect) string {
	if len(due) != 1 || s.Switches < len(s.Start.Agent.Fallbacks) {
		return ""
	}
	if _, ok := due[0].(run.CallModel); !ok {
		return ""
	}
	var unknown *ModelError
	if _, err := a.runner.Models.Model(s.ModelName()); errors.As(err, &unknown) && unknown.Code == CodeNotConfigured {
		return unknown.Message
	}
	return ""
}

// waits says what a run that is left waits for, "" if that is on the record: a
// person.
func (a *actor) waits(s run.State, m run.Moment, missing string) string {
	switch {
	case missing != "":
		a.log().Warn("a run waits for its model; it goes on when a process has it", "model", s.ModelName(), "error", missing)
		return missing + "; the run waits until it is: add it to the configuration and start the server again, or stop the run"
	case m.Now.Before(s.RetryAt):
		why := a.trouble
		if why == "" {
			why = "the model could not be asked"
		}
		return fmt.Sprintf("%s; asked again at %s", why, s.RetryAt.Local().Format(time.TimeOnly))
	}
	return ""
}

// open loads the run, or folds what is new; a run that was only posted is started.
func (a *actor) open(ctx context.Context) error {
	if a.r != nil && a.r.State.Begun() {
		if a.seen.Load() > a.r.Version {
			return a.r.Refresh(ctx)
		}
		return nil
	}
	r, err := a.runner.Commands.OpenRun(ctx, a.key.tenant, a.key.run)
	if err == nil && !r.State.Begun() {
		r, err = a.runner.Commands.StartRun(ctx, a.key.tenant, a.session, a.key.run)
	}
	if err != nil {
		return err
	}
	a.r, a.session = r, r.State.Start.Session
	a.trace.Store(&origin{r.State.Start.Request, r.Trace})
	a.folded.Store(r.Version)
	return nil
}

// log is the log with what is known of the run. Only the actor's own goroutine
// may call it, or who works for it.
func (a *actor) log() *slog.Logger {
	attrs := []any{"tenant", a.key.tenant, "session", a.session, "run", a.key.run}
	if trace := a.trace.Load(); trace != nil {
		attrs = append(attrs, "request", trace.request, "trace", trace.id)
	}
	return a.runner.Log.With(attrs...)
}

// origin is the request that a run answers.
type origin struct{ request, id string }

func (a *actor) moment() run.Moment {
	m := run.Moment{Now: a.runner.Clock.Now().UTC(), Self: a.runner.Self, Sole: a.runner.Sole}
	if gone := a.runner.gone.Load(); gone != nil {
		m.Gone = *gone
	}
	return m
}

func (a *actor) caller() commands.Caller {
	return commands.Caller{Tenant: a.key.tenant, Principal: "process:" + a.runner.Self}
}

// plan decides the reports and then the claims that are due after them. It has
// no effects: after a lost race it is asked again.
func (a *actor) plan(ctx context.Context, s run.State, reports []run.Command) ([]run.Event, run.State, error) {
	out, s, err := run.DecideAll(s, reports...)
	if err != nil || a.isEnding() {
		return out, s, err
	}
	// A refused call may free the next one, so look again after each.
	for range run.MaxCalls + 1 {
		cmds := a.claims(ctx, s)
		if len(cmds) == 0 {
			break
		}
		var events []run.Event
		if events, s, err = run.DecideAll(s, cmds...); err != nil {
			return nil, s, err
		}
		out = append(out, events...)
	}
	return out, s, nil
}

func (a *actor) claims(ctx context.Context, s run.State) []run.Command {
	m := a.moment()
	var out []run.Command
	due := run.Due(s, m)
	if a.missing(s, due) != "" {
		return nil
	}
	for _, e := range due {
		switch e := e.(type) {
		case run.CallModel:
			out = append(out, a.claimModel(ctx, s, m, e))
		case run.CallTool:
			out = append(out, a.claimTool(s, m, e))
		case run.LapseApproval:
			out = append(out, run.ExpireApproval{Approval: e.Approval, Now: m.Now})
		case run.LapseRun:
			out = append(out, run.Expire{Now: m.Now})
		}
	}
	return out
}

// claimModel is the claim of a model call, or what must come before it: a summary
// of older messages.
func (a *actor) claimModel(ctx context.Context, s run.State, m run.Moment, e run.CallModel) run.Command {
	claim := run.ClaimModel{Moment: m, Round: e.Round, Attempt: e.Attempt, Purpose: e.Purpose,
		Deadline: m.Now.Add(a.modelTimeout(s, e.Purpose, m.Now) + run.ClaimGrace)}
	if e.Purpose == run.PurposeMemory {
		return claim
	}
	p, err := a.prompt(ctx, s)
	if err != nil {
		return claim // unmeasured; the call meets the fault again and reports it
	}
	_, fit, _ := p.request(s.Next(), e.Purpose)
	if e.Purpose == run.PurposeRound && fit.cover.messages > 0 && s.MemoryDue(fit.full) {
		return run.MeasureContext{Moment: m, Tokens: fit.full, From: fit.cover.from, To: fit.cover.to, Messages: fit.cover.messages}
	}
	claim.Size, claim.Counted, claim.Dropped = fit.size, fit.counted, fit.dropped
	return claim
}

// prompt gives what builds the requests of the run; the earlier turns are read
// for it once, since they are over and do not change.
func (a *actor) prompt(ctx context.Context, s run.State) (*prompt, error) {
	if p := a.requests.Load(); p != nil {
		return p, nil
	}
	past, err := a.loadPast(ctx, s)
	if err != nil {
		return nil, err
	}
	a.requests.CompareAndSwap(nil, newPrompt(a.runner.counter(), s, past))
	return a.requests.Load(), nil
}

func (a *actor) claimTool(s run.State, m run.Moment, e run.CallTool) run.Command {
	call, _ := s.FindCall(e.Call)
	def, ok := s.Tool(call.Name)
	hash := a.runner.Tools.Hash(call.Name)
	switch {
	case !ok || hash == "":
		return run.RefuseCall{Call: e.Call, Message: "the tool " + call.Name + " is not available any more", Now: m.Now}
	case def.Effect != tool.ReadOnly && hash != def.Hash():
		return run.RefuseCall{Call: e.Call, Message: "the definition of " + call.Name + " has changed since the run was started; it was not run", Now: m.Now}
	}
	return run.ClaimTool{Moment: m, Call: e.Call, Attempt: e.Attempt, ToolHash: hash,
		Key: a.key.run + "/" + e.Call, Deadline: m.Now.Add(toolTimeout(def) + run.ClaimGrace)}
}

// recover reports claims whose owner is gone. What a lost model call has shown
// is read from its transient stream, which is closed first.
func (a *actor) recover(ctx context.Context, reports []run.Command) ([]run.Command, error) {
	var out []run.Command
	m := a.moment()
	for _, e := range append(run.Due(a.r.State, m), a.abandoned(reports)...) {
		switch e := e.(type) {
		case run.RecoverModel:
			if a.works(modelName(e.Call)) {
				continue
			}
			segments, err := a.runner.Commands.CloseDeltas(ctx, a.key.tenant, a.key.run, e.Call)
			if err != nil {
				return nil, err
			}
			lost := run.RecordLostModel{Moment: m, Call: e.Call}
			lost.Text, lost.Reasoning, lost.Shown = run.Compact(segments)
			out = append(out, lost)
		case run.RecoverTool:
			if a.works(toolName(e.Call, e.Attempt)) {
				continue
			}
			out = append(out, run.RecordLostTool{Moment: m, Call: e.Call, Attempt: e.Attempt})
		}
	}
	return out, nil
}

// works tells whether work of this process is in progress and in time. The
// deadline of its claim may seem to have passed, when the clock was set forward;
// how long it has worked is measured by no clock that can be set.
func (a *actor) works(name string) bool {
	w := a.inflight[name]
	return w != nil && !w.overdue.Load()
}

// abandoned lists this process's own claims that nobody works on: the actor
// before this one broke down, or the store wrote a claim and failed to say so.
func (a *actor) abandoned(reports []run.Command) []run.Effect {
	busy := map[string]bool{}
	for name := range a.inflight {
		busy[name] = true
	}
	for _, c := range reports {
		switch c := c.(type) {
		case run.RecordReply:
			busy[modelName(c.Call)] = true
		case run.RecordFailure:
			busy[modelName(c.Call)] = true
		case run.RecordLostModel:
			busy[modelName(c.Call)] = true
		case run.RecordTool:
			busy[toolName(c.Call, c.Attempt)] = true
		case run.RecordLostTool:
			busy[toolName(c.Call, c.Attempt)] = true
		}
	}
	s := a.r.State
	if s.Over() {
		return nil
	}
	var out []run.Effect
	if m := s.Model; m != nil && m.Owner == a.runner.Self && !busy[modelName(m.Call)] {
		out = append(out, run.RecoverModel{Call: m.Call})
	}
	for _, c := range s.Open {
		if c.Status == run.CallRunning && c.Owner == a.runner.Self && !busy[toolName(c.Call, c.Attempt)] {
			out = append(out, run.RecoverTool{Call: c.Call, Attempt: c.Attempt})
		}
	}
	return out
}

// begin starts the work whose claims were granted.
func (a *actor) begin(ctx context.Context, events []run.Event) {
	s := a.r.State
	for _, e := range events {
		switch e := e.(type) {
		case run.ModelCallFailed:
			a.trouble = e.Message
		case run.ModelCallStarted:
			a.start(ctx, modelName(e.Call), a.modelTimeout(s, e.Purpose, e.At), nil, func(ctx context.Context) run.Command {
				if e.Purpose == run.PurposeMemory {
					return a.callMemory(ctx, s, e)
				}
				return a.callModel(ctx, s, e)
			}, func(p any) run.Command {
				return run.RecordFailure{Call: e.Call, Code: "internal", Message: "an internal error ended the model call; see the log", Now: a.moment().Now}
			})
		case run.ToolStarted:
			call, _ := s.FindCall(e.Call)
			def, _ := s.Tool(call.Name)
			var giveUp run.Command
			if def.Effect.Repeatable() {
				giveUp = run.RecordLostTool{Moment: a.moment(), Call: e.Call, Attempt: e.Attempt}
			}
			a.start(ctx, toolName(e.Call, e.Attempt), toolTimeout(def), giveUp, func(ctx context.Context) run.Command {
				return a.callTool(ctx, s, call, e)
			}, func(p any) run.Command {
				return run.RecordTool{Call: e.Call, Attempt: e.Attempt, Error: "an internal error ended the call", Output: "Error: an internal error ended the call.\n" + tool.ErrorHint, Now: a.moment().Now}
			})
		}
	}
}

func modelName(call int) string                { return fmt.Sprintf("model:%d", call) }
func toolName(call string, attempt int) string { return fmt.Sprintf("tool:%s:%d", call, attempt) }

// start runs work in a goroutine under its own deadline. A panic in it becomes
// a report, its stack goes to the log only.
func (a *actor) start(ctx context.Context, name string, timeout time.Duration, giveUp run.Command, act func(context.Context) run.Command, failed func(any) run.Command) {
	workCtx, cancel := context.WithCancelCause(ctx)
	stop := a.runner.Clock.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	w := &effort{cancel: cancel, giveUp: giveUp}
	late := a.runner.Clock.AfterFunc(timeout+run.ClaimGrace, func() { w.overdue.Store(true) })
	a.inflight[name] = w
	go func() {
		defer cancel(nil)
		defer stop()
		defer late()
		report := func() (c run.Command) {
			defer func() {
				if p := recover(); p != nil {
					a.log().Error("panic in an effect", "effect", name, "panic", p, "stack", string(debug.Stack()))
					c = failed(p)
				}
			}()
			return act(workCtx)
		}()
		a.done <- finished{name, report}
	}()
}

// cancelStale ends work whose claim is not open any more: the run was stopped,
// or the call was closed by somebody else.
func (a *actor) cancelStale(s run.State) {
	for name, w := range a.inflight {
		if !a.current(s, name) {
			w.cancel(errOver)
		}
	}
}

func (a *actor) current(s run.State, name string) bool {
	if s.Over() {
		return false
	}
	if s.Model != nil && name == modelName(s.Model.Call) && s.Model.Owner == a.runner.Self {
		return true
	}
	for _, c := range s.Open {
		if c.Status == run.CallRunning && c.Owner == a.runner.Self && name == toolName(c.Call, c.Attempt) {
			return true
		}
	}
	return false
}

// handBack ends what can be begun again elsewhere; a tool with side effects may
// finish within the drain time.
func (a *actor) handBack() {
	for _, w := range a.inflight {
		if w.giveUp != nil {
			w.cancel(errHandBack)
			continue
		}
		a.runner.Clock.AfterFunc(a.runner.Drain, func() { w.cancel(errHandBack) })
	}
	for name, w := range a.inflight {
		if a.r.State.Model != nil && name == modelName(a.r.State.Model.Call) {
			w.cancel(errHandBack)
		}
	}
}

func (a *actor) cancelAll(cause error) {
	n := len(a.inflight)
	for _, w := range a.inflight {
		w.cancel(cause)
	}
	go func() { // nobody else takes the reports any more
		for range n {
			<-a.done
		}
	}()
}

func (a *actor) ending() <-chan struct{} {
	return a.runner.ending
}

func (a *actor) isEnding() bool {
	select {
	case <-a.runner.ending:
		return true
	default:
		return false
	}
}

// finish releases what a run that is over still holds.
func (a *actor) finish(ctx context.Context) {
	a.runner.Tools.CleanRun(ctx, a.key.run)
	if a.r.State.Outcome == run.OutcomeStopped {
		a.silent = nil // whoever stopped it has closed a stream, which made one
	}
	var streams []event.Stream
	for call := 1; call <= a.r.State.ModelCalls; call++ {
		if !a.silent[call] {
			streams = append(streams, event.Stream{Tenant: a.key.tenant, Category: event.CategoryDelta, ID: run.DeltaID(a.key.run, call)})
		}
	}
	if len(streams) == 0 {
		return
	}
	if err := a.runner.Store.Trim(ctx, streams...); err != nil {
		a.log().Warn("trim the deltas of a run; the next start does it", "error", err)
	}
}

// nothingShown notes that a model call has no transient stream.
func (a *actor) nothingShown(call int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == nil {
		a.silent = map[int]bool{}
	}
	a.silent[call] = true
}

// forget removes the actor without parking the run: the next start finds it.
func (a *actor) forget() {
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	delete(a.runner.actors, a.key)
}

func (a *actor) retryLater(ctx context.Context, d time.Duration) {
	a.forget()
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	r, key, id := a.runner, a.key, a.session // not the actor: its state would wait with the timer
	r.parked[key] = parking{session: id, version: a.version(), cancel: r.Clock.AfterFunc(d, func() { r.wake(ctx, key, id, 0) })}
}

func (a *actor) modelTimeout(s run.State, purpose string, now time.Time) time.Duration {
	d := s.Start.Limits.ModelDeadline()
	if purpose == run.PurposeMemory {
		d = min(d, run.MemoryTimeout)
	}
	if end := s.Start.Deadline; !end.IsZero() && s.Synthesis == "" {
		d = max(time.Millisecond, min(d, end.Sub(now)))
	}
	return d
}

func toolTimeout(def tool.Definition) time.Duration {
	if def.Timeout > 0 {
		return def.Timeout
	}
	return tool.DefaultTimeout
}
