package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"refold/domain/run"
	"refold/projections"
)

// maxShared is how much of a run's feed is kept for its readers, in bytes of
// frames as they are written. Who is further behind reads the store.
const maxShared = 1 << 20

// sharedFeed is the feed of one run as all its readers in this process have it:
// folded once, and each frame encoded once. A reader has a cursor, the count of
// frames that he was given; that count means the same for all, because the same
// frames come in the same order whenever they are made. Nobody folds in the
// background: whoever asks first folds what has come, for all.
type sharedFeed struct {
	readers int // guarded by the API's mutex

	mu     sync.Mutex
	f      *follower
	behind bool // the store has facts that the follower lacks: at first, and after a gap
	base   int  // frames that are no longer kept
	ids    []string
	ends   []int // of the frames in wire
	wire   []byte
}

// feedReader is one reader of a run's feed. Not safe for concurrent use.
type feedReader struct {
	api    *API
	shared *sharedFeed
	tenant string
	run    string
	count  int // frames that he has
}

// feedPart is what a reader gets at a time: frames that follow each other, as they
// are written. It must not be changed.
type feedPart struct {
	ids       []string
	ends      []int // where the frames end, counted from origin
	origin    int
	wire      []byte
	over      bool            // the last one is the terminal frame
	completed time.Time       // when the run completed, if it did and is over
	more      <-chan struct{} // closed when there may be more
}

// after drops the frames up to and including the one with the id; false if it is
// not among them.
func (p *feedPart) after(id string) bool {
	i := slices.Index(p.ids, id)
	if i < 0 {
		return false
	}
	p.wire = p.wire[p.ends[i]-p.origin:]
	p.origin = p.ends[i]
	p.ids, p.ends = p.ids[i+1:], p.ends[i+1:]
	return true
}

// last is the id of the last frame, "" without one.
func (p *feedPart) last() string {
	if len(p.ids) == 0 {
		return ""
	}
	return p.ids[len(p.ids)-1]
}

// watch begins to read a run's feed; leave must be called at the end.
func (a *API) watch(tenant, runID string) (reader *feedReader, leave func()) {
	k := topic{tenant, run.Category, runID}
	a.feedsMu.Lock()
	defer a.feedsMu.Unlock()
	s := a.feeds[k]
	if s == nil {
		sub, stop := a.Tail.subscribe(tenant, run.Category, runID)
		s = &sharedFeed{f: &follower{api: a, tenant: tenant, run: runID, sub: sub, stop: stop}, behind: true}
		if a.feeds == nil {
			a.feeds = map[topic]*sharedFeed{}
		}
		a.feeds[k] = s
	}
	s.readers++
	return &feedReader{api: a, shared: s, tenant: tenant, run: runID}, func() {
		a.feedsMu.Lock()
		defer a.feedsMu.Unlock()
		if s.readers--; s.readers == 0 {
			s.f.stop()
			delete(a.feeds, k)
		}
	}
}

// next gives the frames that the reader has not got yet; none if there are none.
func (r *feedReader) next(ctx context.Context) (feedPart, error) {
	part, kept, err := r.shared.from(ctx, r.count)
	if err == nil && !kept {
		part, err = r.again(ctx)
		part.more = closed // there may be more by now
	}
	r.count += len(part.ids)
	return part, err
}

// again makes the frames from the store, for a reader who is too far behind.
func (r *feedReader) again(ctx context.Context) (part feedPart, err error) {
	f := &follower{api: r.api, tenant: r.tenant, run: r.run}
	n := 0
	err = f.stored(ctx, func(frames ...projections.Frame) {
		for _, frame := range frames {
			if n++; n > r.count {
				part.wire = appendFrame(part.wire, frame)
				part.ids, part.ends = append(part.ids, frame.ID), append(part.ends, len(part.wire))
			}
		}
	})
	part.over, part.completed = f.feed.Over(), f.feed.CompletedAt()
	return part, err
}

// from folds what has come and gives the frames after the first n; kept is false
// if some of these are no longer here.
func (s *sharedFeed) from(ctx context.Context, n int) (part feedPart, kept bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more, err := s.advance(ctx)
	if err != nil {
		return part, true, err
	}
	if n < s.base {
		return part, false, nil
	}
	i := min(n-s.base, len(s.ids)) // a reader of the store can be ahead
	start := 0
	if i > 0 {
		start = s.ends[i-1]
	}
	part = feedPart{ids: s.ids[i:], ends: s.ends[i:], origin: start, wire: s.wire[start:], more: more}
	if s.base+len(s.ids) >= n {
		part.over, part.completed = s.f.feed.Over(), s.f.feed.CompletedAt()
	}
	return part, true, nil
}

func (s *sharedFeed) advance(ctx context.Context) (more <-chan struct{}, err error) {
	batch, fell, more := s.f.sub.take()
	s.behind = s.behind || fell
	if len(batch) == 0 && !s.behind {
		return more, nil
	}
	s.shrink()
	for _, raw := range batch {
		if s.behind {
			break
		}
		frames, gap, err := s.f.take(raw)
		s.put(frames...)
		if s.behind = gap || err != nil; err != nil {
			return nil, err
		}
	}
	if s.behind {
		if err := s.f.stored(ctx, s.put); err != nil {
			return nil, err
		}
		s.behind = false
	}
	return more, nil
}

func (s *sharedFeed) put(frames ...projections.Frame) {
	for _, f := range frames {
		s.wire = appendFrame(s.wire, f)
		s.ids, s.ends = append(s.ids, f.ID), append(s.ends, len(s.wire))
	}
}

// shrink lets old frames go where there are too many. What readers were given
// stays as it is: it is another piece of memory then.
func (s *sharedFeed) shrink() {
	if len(s.wire) <= maxShared {
		return
	}
	i, _ := slices.BinarySearch(s.ends, len(s.wire)-maxShared/2)
	i = min(i+1, len(s.ends))
	cut := s.ends[i-1]
	s.base += i
	s.ids, s.wire, s.ends = slices.Clone(s.ids[i:]), slices.Clone(s.wire[cut:]), slices.Clone(s.ends[i:])
	for k := range s.ends {
		s.ends[k] -= cut
	}
}
