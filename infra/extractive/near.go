package extractive

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mark is a place in a text that has a term of the question or a word like it.
type mark struct{ term, at, end int } // the term's number; runes

// marks gives the places in their order.
func (q query) marks(text string) []mark {
	var list []mark
	lower := strings.ToLower(text)
	words := wordsOf(text)
	bags := make([]bag, len(words))
	for i, w := range words {
		bags[i] = bagOf(w.text)
	}
	for i, t := range q.terms {
		for _, x := range append([]term{t}, synonyms[t.text]...) {
			if x.han || x.raw {
				for from, begin := 0, 0; ; {
					at := strings.Index(lower[from:], x.text)
					if at < 0 {
						break
					}
					begin += utf8.RuneCountInString(lower[from : from+at])
					end := begin + utf8.RuneCountInString(x.text)
					list = append(list, mark{i, begin, end})
					from, begin = from+at+len(x.text), end
				}
				continue
			}
			for k, w := range words {
				if bags[k].has(x) {
					list = append(list, mark{i, w.at, w.at + utf8.RuneCountInString(w.text)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b mark) int { return cmp.Or(a.at-b.at, a.term-b.term, a.end-b.end) })
	return list
}

const (
	wordRoom = 12 // runes that a term may take with what stands between it and the next
	farAway  = 80 // runes beyond that which halve the closeness
)

// closeness says how near each other the terms stand that a text has, from 0 to
// 1: 1 side by side, as where it has one only.
func (q query) closeness(text string) float64 {
	list := q.marks(text)
	count := make([]int, len(q.terms))
	distinct := 0
	for _, m := range list {
		if count[m.term]++; count[m.term] == 1 {
			distinct++
		}
	}
	if distinct < 2 {
		return 1
	}
	// The shortest stretch with a place of each: two ends that only go forward.
	clear(count)
	width, have, first := utf8.RuneCountInString(text), 0, 0
	for _, m := range list {
		if count[m.term]++; count[m.term] == 1 {
			have++
		}
		for ; have == distinct; first++ {
			width = min(width, m.end-list[first].at)
			if count[list[first].term]--; count[list[first].term] == 0 {
				have--
			}
		}
	}
	return 1 / (1 + float64(max(0, width-wordRoom*distinct))/farAway)
}

// cohesion rates by how the terms stand to each other in a text: neighbours,
// and best in the very words of the question.
func (q query) cohesion(text string) float64 {
	x := apart + (1-apart)*q.closeness(text)
	words := " " + flat(text) + " "
	if slices.ContainsFunc(q.phrases, func(p string) bool { return strings.Contains(words, p) }) {
		x *= 1.3
	}
	return x
}

// phrasesOf gives the stretches of a question from one term to the next, with
// what stands between, as flat text between spaces. Scripts without spaces need
// none: there neighbouring characters are terms.
func phrasesOf(words []string) []string {
	var list []string
	last := -1
	for i, w := range words {
		if r, _ := utf8.DecodeRuneInString(w); stopWords[w] || unspaced(r) {
			continue
		}
		if last >= 0 && i-last <= 3 {
			list = append(list, " "+strings.Join(words[last:i+1], " ")+" ")
		}
		last = i
	}
	return list
}
