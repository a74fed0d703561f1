package search

import (
	"cmp"
	"context"
	"slices"
)

// Budget is how many entries of inverted lists one search reads at most. Rare
// terms and high levels come first; what is left out could have added little.
const Budget = 50_000

// maxLists bounds collections times terms of one search.
const maxLists = 1000

// Collection is a set of texts with inverted lists of its own.
type Collection struct {
	ID     int64
	Texts  int
	Length int64 // of all texts together
}

// List names an inverted list: a lexeme, or all lexemes that begin with Text if
// Prefix.
type List struct {
	Text   string
	Prefix bool
}

// Lists are the inverted lists that a store keeps.
type Lists interface {
	// Sizes tells how long the list of each level of each stem is; beyond Budget it
	// need not be exact. All that begins with a prefix counts as its level 0.
	Sizes(ctx context.Context, stems []List) ([][Levels]int, error)
	// Rows reads lists, each up to its limit. A row stands once in a list.
	Rows(ctx context.Context, lists []List, limits []int) ([][]int64, error)
}

// Shortlist chooses which rows are worth scoring exactly, best first by what
// their lists promise, and gives the Scorer for it. Nothing is found for a query
// without terms.
func Shortlist(ctx context.Context, l Lists, in []Collection, query string) ([]int64, *Scorer, error) {
	terms := QueryTerms(query)
	n, length := 0, int64(0)
	for _, c := range in {
		n += c.Texts
		length += c.Length
	}
	if n == 0 || len(terms) == 0 {
		return nil, nil, nil
	}
	terms = terms[:min(len(terms), max(maxLists/len(in), 4))]
	var stems []List
	for _, t := range terms {
		for _, c := range in {
			stems = append(stems, List{Stem(c.ID, t.Text), t.Prefix})
		}
	}
	sizes, err := l.Sizes(ctx, stems)
	if err != nil {
		return nil, nil, err
	}
	type entry struct {
		List
		term, limit int
		weight      float64
	}
	var entries []entry
	df, idf := make([]int, len(terms)), make([]float64, len(terms))
	for i, t := range terms {
		for k, c := range in {
			for level, size := range sizes[i*len(in)+k] {
				df[i] += size
				switch {
				case size == 0:
				case t.Prefix:
					entries = append(entries, entry{List{Stem(c.ID, t.Text), true}, i, size, mid(Levels / 2)})
				default:
					entries = append(entries, entry{List{Lexeme(c.ID, t.Text, level), false}, i, size, mid(level)})
				}
			}
		}
		idf[i] = IDF(n, df[i])
	}
	for i := range entries {
		entries[i].weight *= idf[entries[i].term]
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	var lists []List
	var limits []int
	for left := Budget; len(lists) < len(entries) && left > 0; {
		e := entries[len(lists)]
		limit := min(e.limit, left)
		left -= limit
		lists, limits = append(lists, e.List), append(limits, limit)
	}
	rows, err := l.Rows(ctx, lists, limits)
	if err != nil {
		return nil, nil, err
	}
	score := make(map[int64]float64, 1024)
	for i, list := range rows {
		for _, row := range list {
			score[row] += entries[i].weight
		}
	}
	return ranked(score), NewScorer(terms, idf, float64(length)/float64(n)), nil
}

// ranked gives the keys of a map by value, largest first, then by key.
func ranked(score map[int64]float64) []int64 {
	type pair struct {
		row int64
		s   float64
	}
	pairs := make([]pair, 0, len(score))
	for row, s := range score {
		pairs = append(pairs, pair{row, s})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(b.s, a.s), cmp.Compare(a.row, b.row)) })
	out := make([]int64, len(pairs))
	for i, p := range pairs {
		out[i] = p.row
	}
	return out
}
