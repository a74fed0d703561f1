package commands

import (
	"context"
	"errors"
	"slices"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/request"
	"refold/domain/session"
)

// ErrChanged says that the request named a version that is not the present one.
var ErrChanged = domain.Reject(domain.Changed, "changed_meanwhile", "somebody changed this since you read it; read it again, and repeat the request with its new ETag")

func (by Caller) holdsAt(version int64) error {
	if by.Versions == nil || slices.Contains(by.Versions, version) {
		return nil
	}
	return ErrChanged
}

// idFor mints an id. In an idempotent request it is the same each time for the
// same purpose.
func (c *Commands) idFor(by Caller, purpose string) string {
	if by.Reservation == "" {
		return c.NewID()
	}
	return request.DerivedID(by.Reservation, purpose)
}

// executed finds what an idempotent request has done to a stream before.
func executed[E any](recs []event.Recorded[E], by Caller, command string) (event.Position, bool) {
	if by.Reservation == "" {
		return "", false
	}
	for i := len(recs) - 1; i >= 0; i-- {
		if m := recs[i].Meta; m.Causation == by.Reservation && m.Command == command {
			return recs[i].Position, true
		}
	}
	return "", false
}

// sent finds what became of a message that the same request has sent before,
// in whichever way: the session may look different by now.
func (c *Commands) sent(ctx context.Context, by Caller, sessionID string) (Posted, bool, error) {
	if by.Reservation == "" {
		return Posted{}, false, nil
	}
	h, err := c.loadSession(ctx, by.Tenant, sessionID)
	if err != nil {
		return Posted{}, false, err
	}
	message, run := c.idFor(by, "message"), c.idFor(by, "run")
	for _, rec := range h.recs {
		if rec.Meta.Causation != by.Reservation {
			continue
		}
		switch rec.Event.(type) {
		case session.MessagePosted:
			return Posted{Message: message, Run: run, Position: rec.Position}, true, nil
		case session.MessageQueued:
			return Posted{Message: message, Run: run, Queued: true, Position: rec.Position}, true, nil
		}
	}
	// A message that steers is a fact of the run that took it.
	posts := h.state.Posts
	for i := len(posts) - 1; i >= max(0, len(posts)-maxSteered); i-- {
		r, err := c.OpenRun(ctx, by.Tenant, posts[i].Run)
		if err != nil {
			return Posted{}, false, err
		}
		if pos, ok := r.executed[by.Reservation+" SteerRun"]; ok {
			return Posted{Message: message, Run: posts[i].Run, Steered: true, Position: pos}, true, nil
		}
	}
	return Posted{}, false, nil
}

// maxSteered bounds in how many of a session's newest runs a repeated message is
// looked for.
const maxSteered = 3

// Reservation is an idempotent request as its stream has it.
type Reservation struct {
	request.State
	Stream  string // id
	Version int64
	New     bool // this call has reserved it
}

// Reserve asks for the key of an idempotent request, which is free, or reserved
// by the same request (then State says what is known of it), or refused with
// request.ErrOther. The append decides between several.
func (c *Commands) Reserve(ctx context.Context, by Caller, key, fingerprint, owner string) (Reservation, error) {
	id := request.StreamID(by.Principal, key)
	cmd := request.Reserve{RequestReserved: request.RequestReserved{Reservation: c.NewID(), Fingerprint: fingerprint, Owner: owner, At: c.Now().UTC()}}
	return c.onRequest(ctx, by, id, "Reserve", cmd)
}

// Answer records what a reserved request was answered with and gives the answer
// that counts, which may be an earlier one; none if the reservation is over.
func (c *Commands) Answer(ctx context.Context, by Caller, stream string, answer request.RequestAnswered) (*request.RequestAnswered, error) {
	answer.At = c.Now().UTC()
	r, err := c.onRequest(ctx, by, stream, "Answer", request.Answer{RequestAnswered: answer})
	return r.State.Answer, err
}

// Release records that a reserved request was refused, so that its key is free.
func (c *Commands) Release(ctx context.Context, by Caller, stream, reservation string, status int) error {
	_, err := c.onRequest(ctx, by, stream, "Release", request.Release{RequestReleased: request.RequestReleased{Reservation: reservation, Status: status, At: c.Now().UTC()}})
	return err
}

// LookRequest reads the stream of a request.
func (c *Commands) LookRequest(ctx context.Context, tenant, stream string) (Reservation, error) {
	out := Reservation{Stream: stream}
	recs, err := c.Requests.Load(ctx, tenant, stream, 0)
	for _, rec := range recs {
		out.State, out.Version = request.Evolve(out.State, rec.Event), rec.Version
	}
	return out, err
}

func (c *Commands) onRequest(ctx context.Context, by Caller, id, command string, cmd request.Command) (Reservation, error) {
	by.Reservation = "" // these facts are its cause
	for try := 1; ; try++ {
		out, err := c.LookRequest(ctx, by.Tenant, id)
		if err != nil {
			return out, err
		}
		events, err := request.Decide(out.State, cmd)
		if err != nil || len(events) == 0 {
			return out, err
		}
		recs, err := c.Requests.Append(ctx, by.Tenant, id, event.Exactly(out.Version), c.envelope(by, "", command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return out, err
		}
		for _, rec := range recs {
			out.State, out.Version = request.Evolve(out.State, rec.Event), rec.Version
		}
		out.New = true
		return out, nil
	}
}
