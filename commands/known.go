package commands

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/session"
)

// Bounds of the sessions that a process keeps folded.
const (
	maxKnown       = 256
	maxKnownBytes  = 64 << 20 // about; one session has at most half
	knownEventCost = 1536     // what an event takes beside its texts, about
)

// known is the sessions that were used last, folded up to a version, so that a
// request reads only what came since. It is never right by itself: whoever uses
// it reads the rest of the stream first and appends at the version found.
type known struct {
	mu     sync.Mutex
	byName map[event.Stream]*list.Element
	recent list.List // of *history, newest use first
	bytes  int
}

// history is a session's stream and its fold. The slices of one that was handed
// out have no room to append into.
type history struct {
	stream  event.Stream
	recs    []event.Recorded[session.Event]
	state   session.State
	version int64
	bytes   int
}

// loadSession reads a session's stream and folds it. Nobody may change what it
// gives: others have it too.
func (c *Commands) loadSession(ctx context.Context, tenant, id string) (history, error) {
	h := c.known.get(c.Sessions.Stream(tenant, id))
	news, err := c.Sessions.Load(ctx, tenant, id, h.version)
	if err != nil {
		return history{}, err
	}
	return c.known.advance(h, news), nil
}

// get gives what is known of a stream; version 0 if it is nothing.
func (k *known) get(s event.Stream) history {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.byName[s]
	if !ok {
		return history{stream: s}
	}
	k.recent.MoveToFront(e)
	return e.Value.(*history).shared()
}

// advance folds the events that follow a history and keeps the result.
func (k *known) advance(h history, news []event.Recorded[session.Event]) history {
	own := &h
	if h.version == 0 { // a whole stream: the others need not wait for its fold
		own.add(news)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.byName[h.stream]
	if ok {
		if has := e.Value.(*history); has.version >= own.version {
			own = has // another request may have come further
		}
		k.remove(e)
	}
	own.add(news)
	if own.version == 0 || own.bytes > maxKnownBytes/2 {
		return *own
	}
	k.byName[h.stream] = k.recent.PushFront(own)
	k.bytes += own.bytes
	for k.recent.Len() > maxKnown || k.bytes > maxKnownBytes {
		k.remove(k.recent.Back())
	}
	return own.shared()
}

// forget drops a session, of which something that was known was not so.
func (k *known) forget(s event.Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.byName[s]; ok {
		k.remove(e)
	}
}

func (k *known) remove(e *list.Element) {
	h := k.recent.Remove(e).(*history)
	delete(k.byName, h.stream)
	k.bytes -= h.bytes
}

// add folds those of the events that are newer.
func (h *history) add(recs []event.Recorded[session.Event]) {
	for _, rec := range recs {
		if rec.Version <= h.version {
			continue
		}
		h.recs = append(h.recs, rec)
		h.state = session.Evolve(h.state, rec.Event)
		h.version = rec.Version
		h.bytes += knownEventCost + textOf(rec.Event)
	}
}

// shared gives the history to somebody else: what either appends is not seen by
// the other, since only the owner has the room behind the last element.
func (h *history) shared() history {
	out := *h
	out.recs, out.state = slices.Clip(h.recs), h.state.Shared()
	return out
}

// textOf is about how many bytes the texts of an event take.
func textOf(e session.Event) int {
	switch e := e.(type) {
	case session.MessagePosted:
		n := len(e.Query)
		for _, m := range slices.Concat(e.Images, e.Files) {
			n += mediaBytes(m)
		}
		if s := e.Sources; s != nil {
			n += 64 * (len(s.Bases) + len(s.Documents) + 2*len(s.Tags))
		}
		return n
	case session.MessageQueued:
		return textOf(e.MessagePosted)
	case session.QueuedMessageEdited:
		return len(e.Query)
	case session.SessionUpdated:
		return len(e.Title) + len(e.Description)
	case session.SessionCreated:
		return len(e.Title) + len(e.Description)
	case session.AttachmentAdded:
		return mediaBytes(e.Media)
	}
	return 0
}

func mediaBytes(m domain.Media) int {
	return 256 + len(m.Name) + len(m.Excerpt)
}
