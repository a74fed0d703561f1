package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// The constants by which ranked lists become one.
const (
	RRFK          = 60  // how little the first places of a list differ
	VectorWeight  = 0.7 // of lists by vector, in a fusion
	KeywordWeight = 0.3 // of lists by words
	Diversity     = 0.7 // MMR: how much relevance counts against being new
	PassDefault   = 0.3 // what a reranker must give a passage
	PassFloor     = 0.15
	passDegrade   = 0.7
	SameText      = 0.85 // texts that overlap this much say the same
	WebSource     = 0.95 // the weight of a source that is not the tenant's own
)

// Fused is an item of a fusion: its place in each list of the n that were fused
// (from 0; -1 where it is not), and the score, from 0 to 1: 1 is first in all of
// the lists that count most.
type Fused struct {
	ID    string
	Score float64
	Place []int
}

// Fuse joins ranked lists by reciprocal rank. The score is relative to best, the
// weights of the lists that one item can be in at best, and cut at 1. The order is
// by score, then by first appearance.
func Fuse(weights []float64, best float64, lists ...[]string) []Fused {
	at := map[string]int{}
	var out []Fused
	for n, list := range lists {
		for place, id := range list {
			i, ok := at[id]
			if !ok {
				i = len(out)
				at[id] = i
				f := Fused{ID: id, Place: make([]int, len(lists))}
				for k := range f.Place {
					f.Place[k] = -1
				}
				out = append(out, f)
			}
			if out[i].Place[n] < 0 {
				out[i].Place[n] = place
				out[i].Score += weights[n] / float64(RRFK+1+place)
			}
		}
	}
	for i := range out {
		out[i].Score = Clamp(out[i].Score * (RRFK + 1) / best)
	}
	Sort(out, func(f Fused) float64 { return f.Score })
	return out
}

// Sort puts the highest scores first and leaves equal ones in their order.
func Sort[T any](in []T, score func(T) float64) {
	slices.SortStableFunc(in, func(a, b T) int { return cmp.Compare(score(b), score(a)) })
}

// Clamp cuts a score to 0 to 1; what is no number is 0.
func Clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// Distinct keeps, in order, what shares no key with something before it. Empty
// keys do not count.
func Distinct[T any](in []T, keys func(T) []string) []T {
	var out []T
	seen := map[string]bool{}
next:
	for _, x := range in {
		all := keys(x)
		for _, k := range all {
			if k != "" && seen[k] {
				continue next
			}
		}
		for _, k := range all {
			seen[k] = true
		}
		out = append(out, x)
	}
	return out
}

// Signature is the same for texts that differ in case, white space, punctuation
// and width only.
func Signature(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, fold(text))
}

// Composite joins what a model says of a passage with how it was found and where
// it comes from. start is where it begins in its document, in characters: the
// first words of a document count up to a twentieth more, the last as much less.
func Composite(model, base, source float64, start int) float64 {
	place := 0.05 - 0.1*float64(max(start, 0))/float64(max(start, 0)+4000)
	return Clamp((0.6*Clamp(model) + 0.3*Clamp(base) + 0.1*Clamp(source)) * (1 + place))
}

// Passing gives the places of the scores that pass a threshold (0 is
// PassDefault). If none does, the threshold is lowered step by step down to
// PassDefault; then the best alone passes if it has PassFloor, or in any case if
// the person has chosen what to look in.
func Passing(scores []float64, threshold float64, pinned bool) []int {
	if !(threshold > 0) {
		threshold = PassDefault
	}
	for {
		var out []int
		for i, s := range scores {
			if s >= threshold {
				out = append(out, i)
			}
		}
		if len(out) > 0 {
			return out
		}
		if threshold <= PassDefault {
			break
		}
		threshold = max(threshold*passDegrade, PassDefault)
	}
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	if len(scores) > 0 && (pinned || scores[best] >= PassFloor) {
		return []int{best}
	}
	return nil
}

// Set is the terms of a text, each once.
type Set map[string]struct{}

// maxSet is how many terms of a text are compared.
const maxSet = 2000

// SetOf gives the terms of a text.
func SetOf(text string) Set {
	s := Set{}
	cut(text, func(t string, r role) {
		if r != last && len(s) < maxSet {
			s[t] = struct{}{}
		}
	})
	return s
}

func (s Set) common(o Set) (n int) {
	if len(o) < len(s) {
		s, o = o, s
	}
	for t := range s {
		if _, ok := o[t]; ok {
			n++
		}
	}
	return n
}

// Jaccard is how much two sets have in common, of all that either has.
func (s Set) Jaccard(o Set) float64 {
	n := s.common(o)
	if n == 0 {
		return 0
	}
	return float64(n) / float64(len(s)+len(o)-n)
}

// Overlap is how much of the smaller set is in the other.
func (s Set) Overlap(o Set) float64 {
	n := s.common(o)
	if n == 0 {
		return 0
	}
	return float64(n) / float64(min(len(s), len(o)))
}

// MMR chooses n of the texts, each as relevant and as different from those before
// it as can be had, and gives their places in that order.
func MMR(relevance []float64, texts []Set, n int) []int {
	n = min(n, len(relevance))
	var out []int
	taken := make([]bool, len(relevance))
	nearest := make([]float64, len(relevance)) // to one that was taken
	for len(out) < n {
		best, value := -1, 0.0
		for i := range relevance {
			v := Diversity*relevance[i] - (1-Diversity)*nearest[i]
			if !taken[i] && (best < 0 || v > value) {
				best, value = i, v
			}
		}
		taken[best] = true
		out = append(out, best)
		for i := range nearest {
			if !taken[i] {
				nearest[i] = max(nearest[i], texts[i].Jaccard(texts[best]))
			}
		}
	}
	return out
}
