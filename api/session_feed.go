package api

import (
	"context"
	"net/http"
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
	follow := r.URL.Query().Get("follow") != "false"
	if id := r.URL.Query().Get("message_id"); id != "" {
		if err := a.ownsRun(r, id); err != nil {
			a.fail(w, r, err)
			return
		}
		notes(r).run = id
		a.serveRun(w, r, id, place(r), follow)
		return
	}
	id := chi.URLParam(r, "session")
	sub, stop := a.Tail.subscribe(tenant(r), session.Category, id)
	defer stop()
	if _, err := a.Commands.Session(r.Context(), tenant(r), id); err != nil {
		a.fail(w, r, err)
		return
	}
	out := a.stream(w)
	defer out.end()
	if err := a.readSession(r, out, sub, id, follow); err != nil {
		if !out.begun {
			a.fail(w, r, err)
			return
		}
		a.broke(r, out, err)
	}
}

func (a *API) readSession(r *http.Request, out *stream, sub *subscription, id string, follow bool) error {
	s, items, err := a.loadOutline(r.Context(), tenant(r), id)
	if err != nil {
		return err
	}
	if err := out.begin(); err != nil {
		return errLeft
	}
	from, seen := place(r), map[string]bool{}
	if from != "" {
		found, err := a.findItem(r, items, from)
		if err != nil {
			return err
		}
		if found < 0 {
			if err := out.resync("the place " + quote(from) + " is not one of this session; all follows from the start"); err != nil {
				return errLeft
			}
			from = ""
		}
		for i := range max(found, 0) {
			seen[items[i].key] = true
		}
		if found >= 0 && items[found].run == "" { // the title itself was the place
			seen[items[found].key], from = true, ""
		}
	}
	for {
		for _, it := range items {
			if seen[it.key] {
				continue
			}
			seen[it.key] = true
			if it.run == "" {
				a.settled(r.Context(), it.title.ID)
				if err := out.frames([]projections.Frame{it.title}); err != nil {
					return errLeft
				}
				continue
			}
			ended, err := a.readRun(r, out, it.run, from, follow, false)
			if err != nil {
				return err
			}
			from = ""
			if !ended && !follow {
				return nil
			}
		}
		if !follow || s.Deleted {
			return nil
		}
		if err := a.quiet(r.Context(), out, sub); err != nil {
			return err
		}
		if s, items, err = a.loadOutline(r.Context(), tenant(r), id); err != nil {
			return err
		}
	}
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
		case <-sub.notify:
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
		f, stop := a.follow(tenant(r), items[i].run)
		frames, err := f.stored(r.Context())
		stop()
		if err != nil {
			return -1, err
		}
		if _, found := after(frames, id); found {
			return i, nil
		}
		return -1, nil
	}
	return -1, nil
}
