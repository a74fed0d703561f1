package api

import (
	"context"

	"refold/domain/event"
	"refold/domain/run"
	"refold/projections"
)

// follower makes the frames of one run: first of what is stored, then of what
// happens, without a gap and without a repetition, because it subscribes before
// it reads and counts versions. Without a subscription it reads the store only.
type follower struct {
	api    *API
	tenant string
	run    string
	feed   projections.RunFeed
	sub    *subscription
	stop   func()

	version int64 // of the run's stream
	call    int   // model call whose deltas are read
	deltas  int64 // version of its transient stream
	pieces  int   // segments of it
}

// stored gives the frames that the store has and the follower had not. The
// deltas of a call are deleted when its run is over, so facts are looked for
// again after them: whoever finds no deltas finds the fact that says the same.
// After an error it goes on where it was.
func (f *follower) stored(ctx context.Context, put func(...projections.Frame)) error {
	for again := false; ; again = true {
		recs, err := f.api.Commands.Runs.Load(ctx, f.tenant, f.run, f.version)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			put(f.fact(rec)...)
		}
		if f.feed.Call() == 0 || again && len(recs) == 0 {
			return nil
		}
		deltas, err := f.api.Commands.Deltas.Load(ctx, f.tenant, run.DeltaID(f.run, f.feed.Call()), f.deltas)
		if err != nil {
			return err
		}
		for _, rec := range deltas {
			put(f.delta(rec.Version, rec.Event)...)
		}
	}
}

func (f *follower) fact(rec event.Recorded[run.Event]) []projections.Frame {
	f.version = rec.Version
	frames := f.feed.Fact(rec)
	if f.feed.Call() != f.call {
		f.call, f.deltas, f.pieces = f.feed.Call(), 0, 0
	}
	return frames
}

func (f *follower) delta(version int64, d run.Delta) []projections.Frame {
	f.deltas = version
	frames := f.feed.Delta(f.pieces, d.Segments)
	f.pieces += len(d.Segments)
	return frames
}

// take folds one event of the tail; gap tells that one before it is missing.
func (f *follower) take(raw event.Raw) (frames []projections.Frame, gap bool, err error) {
	if raw.Stream.Category == run.Category {
		if raw.Version <= f.version {
			return nil, false, nil
		}
		if raw.Version != f.version+1 {
			return nil, true, nil
		}
		rec, err := event.Record(run.Codec, raw)
		if err != nil {
			return nil, false, err
		}
		return f.fact(rec), false, nil
	}
	if f.feed.Call() == 0 || raw.Stream.ID != run.DeltaID(f.run, f.feed.Call()) || raw.Version <= f.deltas {
		return nil, false, nil
	}
	if raw.Version != f.deltas+1 {
		return nil, true, nil
	}
	rec, err := event.Record(run.DeltaCodec, raw)
	if err != nil {
		return nil, false, err
	}
	return f.delta(rec.Version, rec.Event), false, nil
}
