package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/projections"
)

// place is where a reader wants to go on; "" is the start.
func place(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("after")
}

// after drops the frames up to and including the one with the id; false if it
// is not among them.
func after(frames []projections.Frame, id string) ([]projections.Frame, bool) {
	for i, f := range frames {
		if f.ID == id {
			return frames[i+1:], true
		}
	}
	return frames, false
}

// errLeft says that the reader is gone, or its server is going.
var errLeft = errors.New("the stream has ended")

// readRun writes a run's frames, from the place named or from its start, and
// follows it to its terminal frame; with follow false to the end of what is
// stored. With title, what the end of the run gave its session belongs to it.
func (a *API) readRun(r *http.Request, out *stream, runID, from string, follow, title bool) (ended bool, err error) {
	ctx := r.Context()
	f, stop := a.follow(tenant(r), runID)
	defer stop()
	t, stopTitle := a.titleOf(r, runID)
	defer stopTitle()
	frames, err := f.stored(ctx)
	if err != nil {
		return false, err
	}
	if title && f.feed.Over() {
		more, _, err := t.stored(ctx)
		if err != nil {
			return false, err
		}
		frames = append(frames, more...)
	}
	if err := out.begin(); err != nil {
		return false, errLeft
	}
	if from != "" {
		rest, found := after(frames, from)
		if !found {
			if err := out.resync("the place " + quote(from) + " is not one of this stream; all follows from the start"); err != nil {
				return false, errLeft
			}
		}
		frames = rest
	}
	beat := a.Heartbeat
	if beat == 0 {
		beat = 15 * time.Second
	}
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		if n := len(frames); n > 0 && f.feed.Over() {
			a.settled(ctx, frames[n-1].ID)
		}
		if err := out.frames(frames); err != nil {
			return false, errLeft
		}
		if f.feed.Over() || !follow {
			if title && follow && f.feed.Over() {
				return true, t.wait(ctx, out, f.feed.CompletedAt())
			}
			return f.feed.Over(), nil
		}
		timer.Reset(beat)
		select {
		case <-f.sub.notify:
		case <-timer.C:
			if err := out.write([]byte(": ping\n\n")); err != nil {
				return false, errLeft
			}
		case <-ctx.Done():
			return false, errLeft
		}
		if frames, err = f.next(ctx); err != nil {
			return false, err
		}
	}
}

// settled waits, within bounds, until every view shows the end of the run: who
// has the terminal frame can read the message.
func (a *API) settled(ctx context.Context, frameID string) {
	pos, _, found := projections.SplitFrameID(frameID)
	if !found {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	for _, p := range a.Engine.List {
		if err := a.Engine.Await(ctx, p, pos); err != nil {
			a.Log.Warn("a view is behind at the end of a run", "error", err)
		}
	}
}

// broke ends a stream that failed on our side: one terminal frame, no text that
// is not meant for clients.
func (a *API) broke(r *http.Request, out *stream, err error) {
	if errors.Is(err, errLeft) {
		return
	}
	_, code, message, _ := a.explain(r, err)
	data, mErr := json.Marshal(body{"id": requestID(r), "response_type": "error", "content": message, "done": true,
		"data": body{"stage": "stream", "error": message, "code": code}})
	if mErr == nil {
		_ = out.write([]byte("event:message\ndata:" + string(data) + "\n\n")) // the reader may be gone
	}
}

// continueStream replays a run from its start, or from Last-Event-ID, and
// follows it to its end.
func (a *API) continueStream(w http.ResponseWriter, r *http.Request) {
	messageID := r.URL.Query().Get("message_id")
	if messageID == "" {
		a.fail(w, r, invalid("message_id is required: the id of the assistant's message"))
		return
	}
	if err := a.ownsRun(r, messageID); err != nil {
		a.fail(w, r, err)
		return
	}
	notes(r).run = messageID
	a.serveRun(w, r, messageID, place(r), true)
}

// serveRun writes a run's frames from a place; a run whose message still waits
// is waited for.
func (a *API) serveRun(w http.ResponseWriter, r *http.Request, runID, from string, follow bool) {
	out := a.stream(w)
	defer out.end()
	taken, err := a.awaitTaken(r, out, runID, follow)
	if err == nil && taken {
		_, err = a.readRun(r, out, runID, from, follow, true)
	}
	if err == nil {
		return
	}
	if !out.begun {
		a.fail(w, r, err)
		return
	}
	a.broke(r, out, err)
}

// ownsRun checks that the session in the path exists and has the run, or a
// waiting message that will be answered by it.
func (a *API) ownsRun(r *http.Request, runID string) error {
	s, err := a.Commands.Session(r.Context(), tenant(r), chi.URLParam(r, "session"))
	if err != nil {
		return err
	}
	if _, _, found := s.Post(runID); !found && !s.Waits(runID) || slices.Contains(s.Hidden, runID) {
		return notFound("there is no such message in this session")
	}
	return nil
}

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

func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
