package search

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Spaces keeps the vectors of many spaces (a tenant and a model each) in memory,
// as long as they are searched: at most so many bytes altogether, the ones that
// were not searched for the longest time going first, and none that was not
// searched for the idle time. The zero value is not usable; call NewSpaces. Safe
// for concurrent use.
type Spaces struct {
	most   int
	idle   time.Duration
	mu     sync.Mutex
	spaces map[int64]*space
}

// What Spaces holds unless it is told otherwise: 512 MiB are a million vectors of
// 384 components.
const (
	SpaceBytes = 512 << 20
	SpaceIdle  = 10 * time.Minute
)

// NewSpaces is empty.
func NewSpaces(most int, idle time.Duration) *Spaces {
	return &Spaces{most: most, idle: idle, spaces: map[int64]*space{}}
}

type space struct {
	mu      sync.RWMutex // for vectors, at, whole
	vectors *Vectors
	at      Mark
	whole   int // how many there were when all were read at once

	// Under the lock of Spaces.
	used  time.Time
	timer *time.Timer
	bytes int
}

// Mark says up to where a store has been read: the last numbers that it has given
// to vectors and to chunks. A store never gives a number below one that could be seen.
type Mark struct{ Vectors, Chunks int64 }

// Loader reads what lies between two marks: each chunk with its vector, once, if
// one of them lies behind from and both up to the mark that it gives back.
type Loader func(ctx context.Context, from Mark, add func(Ref, []float32) error) (Mark, error)

var errFull = errors.New("more vectors than may be held")

// Nearest finds the n nearest in a space, reading what is new since the last
// time. Of a space that is too large to be held all is read each time, in pieces.
func (s *Spaces) Nearest(ctx context.Context, id int64, now Mark, load Loader, query []float32, n int, keep func(Ref) bool) ([]Near, error) {
	sp := s.use(id)
	sp.mu.RLock()
	if sp.vectors != nil && sp.at == now {
		defer sp.mu.RUnlock()
		return sp.vectors.Nearest(query, n, keep), nil
	}
	sp.mu.RUnlock()
	sp.mu.Lock()
	if sp.vectors == nil || sp.at != now {
		if err := sp.read(ctx, s.most, len(query), load); errors.Is(err, errFull) {
			sp.vectors = nil
			sp.mu.Unlock()
			s.drop(id)
			return inPieces(ctx, load, query, n, keep)
		} else if err != nil {
			sp.vectors = nil // it may hold a part
			sp.mu.Unlock()
			return nil, err
		}
	}
	near, bytes := sp.vectors.Nearest(query, n, keep), sp.vectors.Bytes()
	sp.mu.Unlock()
	s.account(id, sp, bytes)
	return near, nil
}

// read brings a space up to date. What was deleted stays in it, and is found no
// more, until a quarter has come on top; then all is read again.
func (sp *space) read(ctx context.Context, most, dims int, load Loader) error {
	if sp.vectors == nil || sp.vectors.Len() > sp.whole+sp.whole/4+1000 {
		sp.vectors, sp.at, sp.whole = NewVectors(dims), Mark{}, 0
	}
	all := sp.at == Mark{}
	at, err := load(ctx, sp.at, func(r Ref, v []float32) error {
		sp.vectors.Add(r, v)
		if sp.vectors.Bytes() > most {
			return errFull
		}
		return nil
	})
	if err != nil {
		return err
	}
	sp.at = at
	if all {
		sp.whole = sp.vectors.Len()
	}
	return nil
}

// piece is how many vectors are held at once of a space that is too large.
const piece = 32768

func inPieces(ctx context.Context, load Loader, query []float32, n int, keep func(Ref) bool) ([]Near, error) {
	part, best := NewVectors(len(query)), []Near(nil)
	search := func() {
		best = append(best, part.Nearest(query, n, keep)...)
		best = nearest(best, n)
		part.data, part.scale, part.refs = part.data[:0], part.scale[:0], part.refs[:0]
	}
	_, err := load(ctx, Mark{}, func(r Ref, v []float32) error {
		if part.Add(r, v); part.Len() == piece {
			search()
		}
		return nil
	})
	search()
	return best, err
}

// use notes that a space is searched.
func (s *Spaces) use(id int64) *space {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[id]
	if sp == nil {
		sp = &space{}
		sp.timer = time.AfterFunc(s.idle, func() { s.drop(id) })
		s.spaces[id] = sp
	}
	sp.timer.Reset(s.idle)
	sp.used = time.Now()
	return sp
}

// account notes what a space takes, and drops others until all fit.
func (s *Spaces) account(id int64, sp *space, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp.bytes = bytes
	for {
		total, oldest := 0, int64(0)
		for k, o := range s.spaces {
			total += o.bytes
			if k != id && (oldest == 0 || o.used.Before(s.spaces[oldest].used)) {
				oldest = k
			}
		}
		if total <= s.most || oldest == 0 {
			return
		}
		s.spaces[oldest].timer.Stop()
		delete(s.spaces, oldest)
	}
}

func (s *Spaces) drop(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp := s.spaces[id]; sp != nil {
		sp.timer.Stop()
		delete(s.spaces, id)
	}
}

// Held is how many spaces are in memory, and about how many bytes they take.
func (s *Spaces) Held() (spaces, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		bytes += sp.bytes
	}
	return len(s.spaces), bytes
}

// Close frees all.
func (s *Spaces) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sp := range s.spaces {
		sp.timer.Stop()
		delete(s.spaces, id)
	}
}
