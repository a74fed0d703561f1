package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/event"
	"refold/domain/session"
	"refold/projections"
)

// titleWait is how long a run's stream stays open after the end of the run for
// the session's title.
const titleWait = 3 * time.Second

// item is a part of a session's feed: the frames of a run, or the frame of a
// title. Items stand in the order of their facts in the session's stream, so
// every reader gets the same order whenever they come.
type item struct {
	key   string
	run   string // "" for a title
	title projections.Frame
}

// outline lists the items of a session's stream. Turns that were cleared or
// deleted have none; their ids are places of no stream any more.
func outline(recs []event.Recorded[session.Event]) (session.State, []item) {
	var s session.State
	var all []item
	posts := map[string]session.MessagePosted{} // by run
	for _, rec := range recs {
		s = session.Evolve(s, rec.Event)
		switch e := rec.Event.(type) {
		case session.MessagePosted:
			posts[e.Run] = e
			all = append(all, item{key: e.Run, run: e.Run})
		case session.SessionTitled:
			if e.Run != "" {
				f := projections.TitleFrame(rec.Position, posts[e.Run].Request, rec.Stream.ID, e.Title)
				all = append(all, item{key: f.ID, title: f})
			}
		case session.MessagesCleared:
			all = nil
		}
	}
	if len(s.Hidden) == 0 {
		return s, all
	}
	hidden := map[string]bool{}
	for _, id := range s.Hidden {
		hidden[id] = true
	}
	return s, slices.DeleteFunc(all, func(it item) bool { return it.run != "" && hidden[it.run] })
}

// loadOutline reads a session's stream; session.ErrNotFound if it was never made.
func (a *API) loadOutline(ctx context.Context, tenant, id string) (session.State, []item, error) {
	recs, _, err := a.Commands.SessionRecord(ctx, tenant, id)
	if err != nil {
		return session.State{}, nil, err
	}
	s, items := outline(recs)
	if s.Created == nil {
		err = session.ErrNotFound
	}
	return s, items, err
}

// titleFeed brings the title that the end of a run gives its session to one
// reader of the run.
type titleFeed struct {
	api                  *API
	tenant, session, run string
	sub                  *subscription
	sent                 bool
}

func (a *API) titleOf(r *http.Request, runID string) (*titleFeed, func()) {
	t := &titleFeed{api: a, tenant: tenant(r), session: chi.URLParam(r, "session"), run: runID}
	sub, stop := a.Tail.subscribe(t.tenant, session.Category, t.session)
	t.sub = sub
	return t, stop
}

// stored gives the title's frame, if there is one; owed tells whether it may
// still come.
func (t *titleFeed) stored(ctx context.Context) (frames []projections.Frame, owed bool, err error) {
	recs, s, err := t.api.Commands.SessionRecord(ctx, t.tenant, t.session)
	if err != nil {
		return nil, false, err
	}
	for _, rec := range recs {
		if e, ok := rec.Event.(session.SessionTitled); ok && e.Run == t.run {
			post, _, _ := s.Post(t.run)
			t.sent = true
			return []projections.Frame{projections.TitleFrame(rec.Position, post.Request, t.session, e.Title)}, false, nil
		}
	}
	return nil, s.Titles(t.run), nil
}

// wait keeps the stream open until the title has come, none is owed, or the run
// has been over for titleWait. ended zero means that no title can come.
func (t *titleFeed) wait(ctx context.Context, out *stream, ended time.Time) error {
	if t.sent || ended.IsZero() {
		return nil
	}
	timer := time.NewTimer(min(titleWait, titleWait-time.Since(ended)))
	defer timer.Stop()
	for late := false; ; {
		frames, owed, err := t.stored(ctx)
		if err != nil {
			t.api.Log.Warn("look for the title of a session", "session", t.session, "error", err)
			return nil // the run has been shown to its end
		}
		if len(frames) > 0 {
			t.api.settled(ctx, frames[0].ID)
			if err := out.frames(frames); err != nil {
				return errLeft
			}
			return nil
		}
		if !owed || late {
			return nil
		}
		select {
		case <-t.sub.changed():
			t.sub.take()
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return errLeft
		}
	}
}
