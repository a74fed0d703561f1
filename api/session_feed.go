package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/projections"
)

// sessionEvents is the feed of a whole session: all its runs in order, then
// what happens, until the reader leaves.
func (a *API) sessionEvents(w http.ResponseWriter, r *http.Request) {
	follow, err := yes(r, "follow", true)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if id := r.URL.Query().Get("message_id"); id != "" {
		if err := a.ownsRun(r, id); err != nil {
			a.fail(w, r, err)
			return
		}
		notes(r).run = id
		a.serveRun(w, r, id, place(r), follow)
		return
	}
	s := &sessionReader{a: a, r: r, id: chi.URLParam(r, "session"), follow: follow, seen: map[string]bool{}}
	var stop func()
	s.sub, stop = a.Tail.subscribe(tenant(r), session.Category, s.id)
	notes(r).rest = func() {
		defer stop()
		s.serve(w)
	}
}

// sessionReader is a reader of a session's feed. Most of them wait most of the
// time, in thousands, and what a goroutine that waits takes is the depth of its
// stack: so it waits in serve, below everything that was needed to get there.
type sessionReader struct {
	a      *API
	r      *http.Request
	out    *stream
	sub    *subscription
	id     string
	follow bool
	from   string // place in the item that is next
	seen   map[string]bool
	items  []item
	last   bool // nothing will follow
}

func (s *sessionReader) serve(w http.ResponseWriter) {
	s.out = s.a.stream(w)
	defer s.out.end()
	err := s.begin()
	for err == nil {
		if s.last, err = s.show(); err != nil || s.last {
			break
		}
		if err = s.a.quiet(s.r.Context(), s.out, s.sub); err == nil {
			err = s.load()
		}
	}
	switch {
	case err == nil:
	case s.out.begun:
		s.a.broke(s.r, s.out, err)
	default:
		s.a.fail(w, s.r, err)
	}
}

func (s *sessionReader) load() (err error) {
	var state session.State
	state, s.items, err = s.a.loadOutline(s.r.Context(), tenant(s.r), s.id)
	s.last = state.Deleted || !s.follow
	return err
}

// begin finds the place from which the reader goes on.
func (s *sessionReader) begin() error {
	if _, err := s.a.Commands.Session(s.r.Context(), tenant(s.r), s.id); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	if err := s.out.begin(); err != nil {
		return errLeft
	}
	from := place(s.r)
	if from == "" {
		return nil
	}
	found, err := s.a.findItem(s.r, s.items, from)
	if err != nil {
		return err
	}
	if found < 0 {
		if err := s.out.resync("the place " + quote(from) + " is not one of this session; all follows from the start"); err != nil {
			return errLeft
		}
		return nil
	}
	for i := range found {
		s.seen[s.items[i].key] = true
	}
	if s.items[found].run == "" { // the title itself was the place
		s.seen[s.items[found].key] = true
		return nil
	}
	s.from = from
	return nil
}

// show writes what the reader has not seen, and tells whether that is all.
func (s *sessionReader) show() (last bool, err error) {
	for _, it := range s.items {
		if s.seen[it.key] {
			continue
		}
		s.seen[it.key] = true
		if it.run == "" {
			s.a.settled(s.r.Context(), it.title.ID)
			if err := s.out.frames([]projections.Frame{it.title}); err != nil {
				return false, errLeft
			}
			continue
		}
		ended, err := s.a.readRun(s.r, s.out, it.run, s.from, s.follow, false)
		if err != nil {
			return false, err
		}
		s.from = ""
		if !ended && !s.follow {
			return true, nil
		}
	}
	s.items = nil
	return s.last, nil
}

// quiet waits for news of the session, with heartbeats.
func (a *API) quiet(ctx context.Context, out *stream, sub *subscription) error {
	beat := a.Heartbeat
	if beat == 0 {
		beat = 15 * time.Second
	}
	timer := time.NewTicker(beat)
	defer timer.Stop()
	for {
		select {
		case <-sub.changed():
			sub.take()
			return nil
		case <-timer.C:
			if err := out.write([]byte(": ping\n\n")); err != nil {
				return errLeft
			}
		case <-ctx.Done():
			return errLeft
		}
	}
}

// findItem finds the item in whose frames a place lies, -1 if in none: a title,
// or the newest run that began at or before it and has that very frame.
func (a *API) findItem(r *http.Request, items []item, id string) (int, error) {
	pos, _, valid := projections.SplitFrameID(id)
	if !valid {
		return -1, nil
	}
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].run == "" {
			if items[i].key == id {
				return i, nil
			}
			continue
		}
		first, err := a.Store.Read(r.Context(), event.Stream{Tenant: tenant(r), Category: run.Category, ID: items[i].run}, 0, 1)
		if err != nil {
			return -1, err
		}
		if len(first) == 0 || first[0].Position > pos {
			continue
		}
		found := false
		f := &follower{api: a, tenant: tenant(r), run: items[i].run}
		err = f.stored(r.Context(), func(frames ...projections.Frame) {
			found = found || slices.ContainsFunc(frames, func(f projections.Frame) bool { return f.ID == id })
		})
		if err != nil || !found {
			return -1, err
		}
		return i, nil
	}
	return -1, nil
}
