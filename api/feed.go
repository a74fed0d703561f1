package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/projections"
)

// place is where a reader wants to go on; "" is the start.
func place(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("after")
}

// errLeft says that the reader is gone, or its server is going.
var errLeft = errors.New("the stream has ended")

// readRun writes a run's frames, from the place named or from its start, and
// follows it to its terminal frame; with follow false to the end of what is
// stored. With title, what the end of the run gave its session belongs to it.
func (a *API) readRun(r *http.Request, out *stream, runID, from string, follow, title bool) (ended bool, err error) {
	ctx := r.Context()
	feed, leave := a.watch(tenant(r), runID)
	defer leave()
	t, stopTitle := a.titleOf(r, runID)
	defer stopTitle()
	part, err := feed.next(ctx)
	if err != nil {
		return false, err
	}
	var given []projections.Frame
	if title && part.over {
		if given, _, err = t.stored(ctx); err != nil {
			return false, err
		}
	}
	if err := out.begin(); err != nil {
		return false, errLeft
	}
	last := part.last()
	if from != "" && !part.after(from) {
		switch {
		case len(given) > 0 && given[0].ID == from:
			part.wire, given = nil, nil
		default:
			if err := out.resync("the place " + quote(from) + " is not one of this stream; all follows from the start"); err != nil {
				return false, errLeft
			}
		}
	}
	beat := a.Heartbeat
	if beat == 0 {
		beat = 15 * time.Second
	}
	timer := time.NewTimer(beat)
	defer timer.Stop()
	said := time.Now()
	for {
		if len(part.wire)+len(given) > 0 && part.over {
			if len(given) > 0 {
				last = given[len(given)-1].ID
			}
			a.settled(ctx, last)
		}
		if err := out.write(part.wire); err != nil {
			return false, errLeft
		}
		if err := out.frames(given); err != nil {
			return false, errLeft
		}
		if part.over || !follow {
			if title && follow && part.over {
				return true, t.wait(ctx, out, part.completed)
			}
			return part.over, nil
		}
		if len(part.wire) > 0 {
			said = time.Now()
		}
		select {
		case <-part.more:
		case <-timer.C:
			if time.Since(said) >= beat {
				if err := out.write([]byte(": ping\n\n")); err != nil {
					return false, errLeft
				}
				said = time.Now()
			}
			timer.Reset(beat - time.Since(said)) // not at each frame: many readers have many timers
		case <-ctx.Done():
			return false, errLeft
		}
		if part, err = feed.next(ctx); err != nil {
			return false, err
		}
		last = part.last()
	}
}

// settled waits, within bounds, until every view shows the end of the run: who
// has the terminal frame can read the message, also from another process. Where
// there is none, it is enough that a read waits for its view (fresh).
func (a *API) settled(ctx context.Context, frameID string) {
	pos, _, found := projections.SplitFrameID(frameID)
	if !found || a.Sole {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	if err := a.Engine.AwaitAll(ctx, pos); err != nil {
		a.Log.Warn("a view is behind at the end of a run", "error", err)
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
