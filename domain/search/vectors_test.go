package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func random(rnd *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(rnd.NormFloat64())
	}
	return v
}

// The nearest by bytes are those by floats, but for what is almost equal.
func TestVectors_NearTheExactOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const dims, n = 97, 20_000 // more than one worker's share
	v, all := NewVectors(dims), [][]float32(nil)
	for i := range n {
		x := random(rnd, dims)
		all = append(all, x)
		v.Add(Ref{Row: int64(i), Entry: int64(i % 7)}, x)
	}
	for range 5 {
		q := random(rnd, dims)
		keep := func(r Ref) bool { return r.Entry != 3 }
		var exact []float64
		for i, x := range all {
			if i%7 != 3 {
				exact = append(exact, Cosine(q, x))
			}
		}
		slices.Sort(exact)
		got := v.Nearest(q, 50, keep)
		if len(got) != 50 {
			t.Fatalf("%d", len(got))
		}
		least := exact[len(exact)-50]
		for i, g := range got {
			c := Cosine(q, all[g.Row])
			if g.Entry == 3 || math.Abs(c-g.Score) > 0.01 || c < least-0.01 || i > 0 && g.Score > got[i-1].Score {
				t.Fatalf("place %d: %+v, exactly %v, the least is %v", i, g, c, least)
			}
		}
	}
}

func TestVectors_WhatCannotBeCompared(t *testing.T) {
	v := NewVectors(2)
	inf := float32(math.Inf(1))
	for _, x := range [][]float32{nil, {1}, {1, 2, 3}, {0, 0}, {inf, 1}, {float32(math.NaN()), 1}} {
		v.Add(Ref{}, x)
	}
	if v.Len() != 0 {
		t.Errorf("%d were taken", v.Len())
	}
	v.Add(Ref{Row: 1}, []float32{1e-30, 2e-30})
	v.Add(Ref{Row: 2}, []float32{1e18, -1e18})
	all := func(Ref) bool { return true }
	for _, q := range [][]float32{nil, {1}, {0, 0}, {inf, 1}} {
		if got := v.Nearest(q, 5, all); len(got) != 0 {
			t.Errorf("%v: %v", q, got)
		}
	}
	if got := v.Nearest([]float32{1, 2}, 5, all); len(got) != 2 || got[0].Row != 1 || math.Abs(got[0].Score-1) > 0.01 {
		t.Errorf("got %v", got)
	}
	if got := v.Nearest([]float32{1, 2}, 0, all); len(got) != 0 {
		t.Errorf("none of them: %v", got)
	}
}

// A space is read once, then only what is new; a failed read leaves nothing half.
func TestSpaces(t *testing.T) {
	s := NewSpaces(1<<20, time.Hour)
	defer s.Close()
	var reads []Mark
	stored := 0
	fail := false
	load := func(_ context.Context, from Mark, add func(Ref, []float32) error) (Mark, error) {
		reads = append(reads, from)
		for i := int(from.Vectors); i < stored; i++ {
			if err := add(Ref{Row: int64(i + 1)}, []float32{1, float32(i)}); err != nil {
				return Mark{}, err
			}
			if fail {
				return Mark{}, errors.New("broken")
			}
		}
		return Mark{Vectors: int64(stored)}, nil
	}
	search := func(want int) {
		t.Helper()
		got, err := s.Nearest(t.Context(), 7, Mark{Vectors: int64(stored)}, load, []float32{1, 0}, 100, func(Ref) bool { return true })
		if err != nil || len(got) != want {
			t.Errorf("%d, %v, want %d", len(got), err, want)
		}
	}
	stored = 3
	search(3)
	search(3)
	stored = 5
	search(5)
	if want := []Mark{{}, {Vectors: 3}}; !slices.Equal(reads, want) {
		t.Errorf("read from %v, want %v", reads, want)
	}
	stored, fail = 8, true
	if _, err := s.Nearest(t.Context(), 7, Mark{Vectors: 8}, load, []float32{1, 0}, 100, func(Ref) bool { return true }); err == nil {
		t.Error("a failed read is no error")
	}
	fail = false
	search(8)
	if last := reads[len(reads)-1]; last != (Mark{}) {
		t.Errorf("after a failure it reads from %v", last)
	}
	// When much has come on top, all is read again, as much may have gone.
	stored = 2000
	search(100)
	stored = 2001
	search(100)
	if last := reads[len(reads)-1]; last != (Mark{}) {
		t.Errorf("grown, it reads from %v", last)
	}
}

// What nobody searches for is freed.
func TestSpaces_Idle(t *testing.T) {
	s := NewSpaces(1<<20, time.Millisecond)
	load := func(_ context.Context, _ Mark, add func(Ref, []float32) error) (Mark, error) {
		return Mark{Vectors: 1}, add(Ref{Row: 1}, []float32{1})
	}
	if _, err := s.Nearest(t.Context(), 1, Mark{Vectors: 1}, load, []float32{1}, 1, func(Ref) bool { return true }); err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		if n, _ := s.Held(); n == 0 {
			return
		}
	}
}

func TestCosine(t *testing.T) {
	if Cosine([]float32{1, 0}, []float32{2, 0}) != 1 || Cosine([]float32{1, 0}, []float32{0, 3}) != 0 || Cosine([]float32{1}, []float32{1, 2}) != 0 || Cosine([]float32{0}, []float32{1}) != 0 {
		t.Error("cosines")
	}
}
