package handlers

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
)

// moveDocument does what a document is owed until nothing is. A report and the
// claim that follows from it share an append.
func (g *Ingest) moveDocument(ctx context.Context, j *job) (time.Time, error) {
	tenant := j.owed.Stream.Tenant
	d, err := g.Commands.OpenDocument(ctx, tenant, j.owed.Stream.ID)
	if err != nil || !d.State.Begun() {
		return time.Time{}, err
	}
	if err := g.orphan(ctx, d); err != nil {
		return time.Time{}, err
	}
	var report knowledge.Command
	for failed := time.Duration(0); ; {
		g.known(j, d.Version)
		events, err := d.Do(ctx, g.by(tenant), "ingest", func(s knowledge.State) ([]knowledge.Command, error) {
			return g.plan(s, report)
		})
		if err != nil {
			if report == nil || g.isEnding() {
				return time.Time{}, err
			}
			// What was done is not done again because the store is away.
			failed = min(max(2*failed, 100*time.Millisecond), 10*time.Second)
			g.log(j.owed).Warn("a result can't be recorded yet", "error", err, "again_in", failed)
			g.sleep(ctx, failed)
			if err := d.Refresh(ctx); err != nil {
				g.log(j.owed).Warn("a document can't be read yet", "error", err)
			}
			continue
		}
		failed, report = 0, nil
		g.known(j, d.Version)
		for _, e := range events {
			g.ended(e)
			if claim, ok := e.(knowledge.StageStarted); ok {
				report = g.act(ctx, j, d.State, claim)
			}
		}
		if report == nil {
			return knowledge.NextWake(d.State, g.Clock.Now().UTC()), nil
		}
	}
}

// ended tells who watches of a fact that ends the work on a document.
func (g *Ingest) ended(e knowledge.Event) {
	if g.Watch == nil {
		return
	}
	switch e := e.(type) {
	case knowledge.Indexed:
		g.Watch.Document("indexed")
	case knowledge.DocumentRemoved:
		g.Watch.Document("removed")
	case knowledge.StageFailed:
		if e.RetryAt.IsZero() && e.Code != knowledge.CodeSuperseded {
			g.Watch.Document("failed")
		}
	}
}

// orphan deletes a document whose base was deleted while it was being added. One
// that is in the index was there when the base was emptied.
func (g *Ingest) orphan(ctx context.Context, d *commands.Document) error {
	if !d.State.Live() || !d.State.Open() && !d.State.Draft {
		return nil
	}
	b, _, err := g.Commands.LookBase(ctx, d.Tenant, d.State.Base())
	if err != nil || b.Live() {
		return err
	}
	_, err = d.Do(ctx, g.by(d.Tenant), "orphan", func(s knowledge.State) ([]knowledge.Command, error) {
		if !s.Live() {
			return nil, nil
		}
		return []knowledge.Command{knowledge.Delete{DocumentDeleted: knowledge.DocumentDeleted{By: g.by(d.Tenant).Principal, At: g.moment().Now}}}, nil
	})
	return err
}

// plan lists the report and then the claim that is due after it. It has no
// effects: after a lost race it is asked again.
func (g *Ingest) plan(s knowledge.State, report knowledge.Command) ([]knowledge.Command, error) {
	var out []knowledge.Command
	if report != nil {
		out = append(out, report)
	}
	_, s, err := knowledge.DecideAll(s, out...)
	if err != nil {
		return nil, err
	}
	m := g.moment()
	// A claim of our own that we do not work on: the store wrote it and failed to
	// say so, or whoever had it broke down.
	if s.Claim != nil && s.Claim.Owner == g.Self {
		lost := knowledge.RecordLost{Moment: m, Claim: s.Claim.Number}
		out = append(out, lost)
		if _, s, err = knowledge.DecideAll(s, lost); err != nil {
			return nil, err
		}
	}
	for range 2 { // what is recovered is due next
		for _, e := range knowledge.Due(s, m) {
			var c knowledge.Command
			switch e := e.(type) {
			case knowledge.Recover:
				c = knowledge.RecordLost{Moment: m, Claim: e.Claim}
			case knowledge.Do:
				if g.isEnding() {
					return out, nil
				}
				c = knowledge.Claim{Moment: m, Stage: e.Stage, Attempt: e.Attempt, Deadline: m.Now.Add(knowledge.ClaimTime(e.Stage) + ingestGrace)}
			}
			out = append(out, c)
			if _, s, err = knowledge.DecideAll(s, c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// known notes how much of the stream whoever works on it has folded.
func (g *Ingest) known(j *job, version int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	j.folded = version
}

// act does a stage that was claimed and says what to report.
func (g *Ingest) act(ctx context.Context, j *job, s knowledge.State, claim knowledge.StageStarted) (report knowledge.Command) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.Clock.AfterFunc(knowledge.ClaimTime(claim.Stage), func() { cancel(context.DeadlineExceeded) })()
	g.mu.Lock()
	j.cancel = cancel
	switch {
	case g.isEnding():
		cancel(errHandBack)
	case j.fence > j.folded:
		cancel(errOver)
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		j.cancel = nil
		g.mu.Unlock()
	}()
	defer func() {
		if p := recover(); p != nil {
			g.log(j.owed).Error("panic in a stage of ingestion", "stage", claim.Stage, "panic", p, "stack", string(debug.Stack()))
			report = knowledge.RecordFailure{Claim: claim.Number, Code: "internal", Message: "an internal error ended it; see the log", Now: g.moment().Now}
		}
	}()
	st := &stage{g: g, tenant: j.owed.Stream.Tenant, s: s, claim: claim, log: g.log(j.owed)}
	done, err := st.run(ctx)
	now := g.moment().Now
	if len(done) > 0 { // what failed after that is met again, under its own claim
		return knowledge.Record{Claim: claim.Number, Event: done[0], More: done[1:], Now: now}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOver), errors.Is(cause, errHandBack), errors.Is(cause, context.Canceled):
		return knowledge.RecordLost{Moment: g.moment(), Claim: claim.Number}
	case errors.Is(cause, context.DeadlineExceeded):
		return knowledge.RecordFailure{Claim: claim.Number, Code: "timeout", Message: "it took longer than " + knowledge.ClaimTime(claim.Stage).String(), Transient: true, Moved: st.moved, Now: now}
	}
	f := failureOf(err)
	f.Claim, f.Moved, f.Now = claim.Number, st.moved, now
	if f.Code == "internal" {
		g.log(j.owed).Error("a stage of ingestion failed", "stage", claim.Stage, "error", err)
	}
	return f
}

// failureOf says what an error means for a document.
func failureOf(err error) knowledge.RecordFailure {
	var parse *ParseError
	var model *ModelError
	var web *WebError
	switch {
	case errors.As(err, &parse):
		return knowledge.RecordFailure{Code: parse.Code, Message: parse.Message}
	case errors.As(err, &model):
		return knowledge.RecordFailure{Code: model.Code, Message: model.Message, Transient: model.Transient, RetryAfter: model.RetryAfter}
	case errors.As(err, &web):
		return knowledge.RecordFailure{Code: web.Code, Message: web.Message, Transient: web.Retryable}
	case errors.Is(err, ErrNoBlob):
		return knowledge.RecordFailure{Code: "content_missing", Message: "the content is not there any more; add the document again"}
	case errors.Is(err, event.ErrUnavailable):
		return knowledge.RecordFailure{Code: "unavailable", Message: "the store could not be reached", Transient: true}
	}
	return knowledge.RecordFailure{Code: "internal", Message: "an internal error ended it; see the log", Transient: true}
}
