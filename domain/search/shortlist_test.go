package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lists is an inverted index in a map.
type lists map[string][]int64

func (l lists) Sizes(_ context.Context, stems []List) ([][Levels]int, error) {
	out := make([][Levels]int, len(stems))
	for i, s := range stems {
		for level := range Levels {
			if s.Prefix {
				out[i][0] = len(l.rows(s))
			} else {
				out[i][level] = len(l[LexemeOf(s.Text, level)])
			}
		}
	}
	return out, nil
}

func (l lists) rows(list List) (out []int64) {
	if !list.Prefix {
		return l[list.Text]
	}
	seen := map[int64]bool{}
	for lexeme, rows := range l {
		for _, r := range rows {
			if strings.HasPrefix(lexeme, list.Text) && !seen[r] {
				seen[r] = true
				out = append(out, r)
			}
		}
	}
	return out
}

func (l lists) Rows(_ context.Context, in []List, limits []int) ([][]int64, error) {
	out, total := make([][]int64, len(in)), 0
	for i, list := range in {
		rows := l.rows(list)
		out[i] = rows[:min(len(rows), limits[i])]
		total += len(out[i])
	}
	if total > Budget {
		return nil, errors.New("over the budget")
	}
	return out, nil
}

// The best by BM25 are among the first of the short list, also where very many
// texts have the words.
func TestShortlist(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	words := rand.NewZipf(rnd, 1.1, 4, 3000)
	l, texts, length := lists{}, []string(nil), int64(0)
	for i := range 30_000 {
		var b strings.Builder
		for range 5 + rnd.IntN(60) {
			fmt.Fprintf(&b, "w%sx ", strings.Repeat(string('a'+rune(words.Uint64()%26)), 1+int(words.Uint64()%5)))
		}
		if i%3 == 0 {
			b.WriteString(strings.Repeat("税务 ", 1+rnd.IntN(4)))
		}
		texts = append(texts, b.String())
		lexemes, n := Lexemes(3, "", "", b.String())
		length += int64(n)
		for _, x := range lexemes {
			l[x] = append(l[x], int64(i))
		}
	}
	in := []Collection{{ID: 3, Texts: len(texts), Length: length}, {ID: 4}}
	for _, query := range []string{"税务", "waax", "waax wbx wcx wddx", "wax wbx", "税"} {
		rows, scorer, err := Shortlist(t.Context(), l, in, query)
		if err != nil {
			t.Fatal(err)
		}
		exact := make([]float64, len(texts))
		for i, text := range texts {
			exact[i] = scorer.Score("", "", text)
		}
		var first []float64
		for _, r := range rows[:150] {
			first = append(first, exact[r])
		}
		down := func(a, b float64) int { return cmp.Compare(b, a) }
		slices.SortFunc(exact, down)
		slices.SortFunc(first, down)
		lost := 0.0
		for i := range 10 {
			lost += 1 - first[i]/exact[i]
		}
		if lost/10 > 0.02 && query != "税" { // a lone character knows no levels
			t.Errorf("%q: the best of the short list score %v, the best of all %v", query, first[:10], exact[:10])
		}
	}
	if rows, scorer, err := Shortlist(t.Context(), l, nil, "税务"); rows != nil || scorer != nil || err != nil {
		t.Error("nothing to search gives something")
	}
}

func TestScorer(t *testing.T) {
	terms := QueryTerms("annual leave")
	s := NewScorer(terms, []float64{2, 1}, 10)
	// In the content once each, in five terms.
	k := 1.2 * (0.25 + 0.75*5/10)
	if got, want := s.Score("", "", "annual leave of some days"), 3*2.2/(1+k); math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	// A title counts twice and takes no length, headings count one and a half times.
	k = 1.2 * (0.25 + 0.75*4/10)
	if got, want := s.Score("Leave", "Annual", "some other words"), 2*1.5*2.2/(1.5+k)+2*2.2/(2+k); math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	if s.Score("x", "y", "z") != 0 || s.Score("", "", "") != 0 {
		t.Error("without any term there is a score")
	}
	if IDF(10, 10) <= 0 || IDF(10, 20) <= 0 || IDF(10, 1) <= IDF(10, 2) {
		t.Error("IDF")
	}
}
