package search

import (
	"cmp"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
)

// Vectors are the vectors of many texts in memory, each of its components in one
// byte: for finding the nearest to a query by looking at all of them. What it
// gives is close to the order of the exact cosines; whoever wants that order
// computes them for a few more than he needs (see Cosine).
//
// A vector takes its dimensions and about 60 bytes more. Not safe for changes
// while it is searched.
type Vectors struct {
	dims  int
	data  []int8
	scale []float32 // of a component, divided by the length of the vector
	refs  []Ref
}

// Ref says whose vector it is. Numbers are the store's own.
type Ref struct {
	Row, Entry, Collection int64
	Vector                 int64
	Kind                   string
}

// NewVectors is empty.
func NewVectors(dims int) *Vectors { return &Vectors{dims: dims} }

// Len is how many there are.
func (v *Vectors) Len() int { return len(v.refs) }

// Bytes is how much memory they take, about.
func (v *Vectors) Bytes() int { return cap(v.data) + 4*cap(v.scale) + 56*cap(v.refs) }

// Add takes one more. A vector of another length, or without direction, is left
// out: nothing is near it.
func (v *Vectors) Add(r Ref, vector []float32) {
	if len(vector) != v.dims {
		return
	}
	largest, norm := float32(0), 0.0
	for _, x := range vector {
		largest = max(largest, x, -x)
		norm += float64(x) * float64(x)
	}
	if largest == 0 || math.IsInf(norm, 0) || math.IsNaN(norm) {
		return
	}
	step := largest / 127
	v.data = quantise(v.data, vector, step)
	v.scale = append(v.scale, step/float32(math.Sqrt(norm)))
	v.refs = append(v.refs, r)
}

func quantise(to []int8, vector []float32, step float32) []int8 {
	for _, x := range vector {
		to = append(to, int8(math.Round(float64(x/step))))
	}
	return to
}

// Near is a text and how near it is, from -1 to 1, about.
type Near struct {
	Ref
	Score float64
}

// Nearest gives the n nearest of those that keep lets through, best first. keep
// is called from several goroutines; texts of one entry follow each other mostly.
func (v *Vectors) Nearest(query []float32, n int, keep func(Ref) bool) []Near {
	if len(query) != v.dims || n <= 0 || v.Len() == 0 {
		return nil
	}
	largest, norm := float32(0), 0.0
	for _, x := range query {
		largest = max(largest, x, -x)
		norm += float64(x) * float64(x)
	}
	if largest == 0 || math.IsInf(norm, 0) || math.IsNaN(norm) {
		return nil
	}
	step := largest / 127
	q := quantise(make([]int8, 0, v.dims), query, step)
	unit := float64(step) / math.Sqrt(norm)

	workers := min(runtime.GOMAXPROCS(0), 1+v.Len()/8192)
	size := (v.Len() + workers - 1) / workers
	found := make([][]Near, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			found[w] = v.scan(q, w*size, min((w+1)*size, v.Len()), n, keep)
		})
	}
	wg.Wait()
	all := nearest(slices.Concat(found...), n)
	for i := range all {
		all[i].Score *= unit
	}
	return all
}

func nearest(all []Near, n int) []Near {
	slices.SortFunc(all, nearer)
	return all[:min(len(all), n)]
}

func nearer(a, b Near) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row)) }

// scan keeps a heap of the n best, the worst of them on top.
func (v *Vectors) scan(q []int8, from, to, n int, keep func(Ref) bool) (heap []Near) {
	for i := from; i < to; i++ {
		s := float64(dot(q, v.data[i*v.dims:(i+1)*v.dims])) * float64(v.scale[i])
		if len(heap) == n && s <= heap[0].Score || !keep(v.refs[i]) {
			continue
		}
		x := Near{v.refs[i], s}
		if len(heap) < n {
			heap = append(heap, x)
			for c := len(heap) - 1; c > 0 && heap[c].Score < heap[(c-1)/2].Score; c = (c - 1) / 2 {
				heap[c], heap[(c-1)/2] = heap[(c-1)/2], heap[c]
			}
			continue
		}
		heap[0] = x
		for p := 0; ; {
			c := 2*p + 1
			if c+1 < n && heap[c+1].Score < heap[c].Score {
				c++
			}
			if c >= n || heap[p].Score <= heap[c].Score {
				break
			}
			heap[p], heap[c] = heap[c], heap[p]
			p = c
		}
	}
	return heap
}

// dot is the inner product of two vectors of one length.
func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += int32(a[0])*int32(b[0]) + int32(a[4])*int32(b[4])
		s1 += int32(a[1])*int32(b[1]) + int32(a[5])*int32(b[5])
		s2 += int32(a[2])*int32(b[2]) + int32(a[6])*int32(b[6])
		s3 += int32(a[3])*int32(b[3]) + int32(a[7])*int32(b[7])
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

// MaxDims is the longest vector that is taken.
const MaxDims = 4096

// ErrVector says that a vector cannot be used.
var ErrVector = errors.New("a vector has 1 to 4096 finite components")

// CheckVector refuses what cannot be compared.
func CheckVector(v []float32) error {
	if len(v) == 0 || len(v) > MaxDims {
		return ErrVector
	}
	for _, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return ErrVector
		}
	}
	return nil
}

// Norm is the length of a vector.
func Norm(v []float32) float64 {
	n := 0.0
	for _, x := range v {
		n += float64(x) * float64(x)
	}
	return math.Sqrt(n)
}

// Cosine is the cosine of the angle between two vectors of one length; 0 if one
// has no direction.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa) / math.Sqrt(bb)
}
