package search

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The parameters of BM25, and what a term weighs that stands in a title or in
// the headings above a text.
const (
	k1            = 1.2
	b             = 0.75
	titleWeight   = 2.0
	contextWeight = 1.5
)

// IDF is what a term weighs that df of n texts have; never negative.
func IDF(n, df int) float64 {
	df = min(df, n)
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

func saturated(tf, length, average float64) float64 {
	return tf * (k1 + 1) / (tf + k1*(1-b+b*length/average))
}

// Scorer scores texts by BM25 against one query. Not safe for concurrent use.
type Scorer struct {
	place   map[string]int
	lone    map[string]int // prefixes
	idf     []float64
	average float64
	tf      []float64
}

// NewScorer takes the terms of a query with their weights, and the average
// length of the collection's texts, in terms.
func NewScorer(terms []Term, idf []float64, average float64) *Scorer {
	s := &Scorer{place: map[string]int{}, lone: map[string]int{}, idf: idf, average: max(average, 1), tf: make([]float64, len(terms))}
	for i, t := range terms {
		if t.Prefix {
			s.lone[t.Text] = i
		} else {
			s.place[t.Text] = i
		}
	}
	return s
}

// Score is the BM25 of a text with its title and the headings above it; 0 if it
// has none of the terms. The title does not count for the length.
func (s *Scorer) Score(title, context, content string) (score float64) {
	clear(s.tf)
	s.count(title, titleWeight)
	length := s.count(context, contextWeight) + s.count(content, 1)
	for i, tf := range s.tf {
		if tf > 0 {
			score += s.idf[i] * saturated(tf, float64(length), s.average)
		}
	}
	return score
}

func (s *Scorer) count(text string, weight float64) (length int) {
	cut(text, func(t string, _ role) {
		length++
		if i, ok := s.place[t]; ok {
			s.tf[i] += weight
		}
		if len(s.lone) > 0 {
			_, n := utf8.DecodeRuneInString(t)
			if i, ok := s.lone[t[:n]]; ok {
				s.tf[i] += weight
			}
		}
	})
	return length
}

// Length is how many terms of a text count for its length.
func Length(context, content string) (n int) {
	cut(context, func(string, role) { n++ })
	cut(content, func(string, role) { n++ })
	return n
}

// Levels is how many levels of impact the inverted list of a term is divided
// into: what share of its idf it gives to a text, in steps of a tenth. Those with
// more are read first.
const Levels = 16

// level is the level of a term in a text, mid what a level stands for. They were
// laid out for texts around typical terms long: what they say is only used to
// choose which texts are scored exactly.
func level(saturated float64) int { return min(max(int(saturated*10-4.5), 0), Levels-1) }

func mid(level int) float64 { return 0.5 + 0.1*float64(level) }

const typical = 300

// maxDistinct is how many terms of one text are indexed.
const maxDistinct = 20_000

// Lexemes gives the entries of an inverted index for one text: the term, in the
// list of its collection, with its level. They hold no white space, no quotes and
// no upper case letters. length is Length of the text.
func Lexemes(collection int64, title, context, content string) (lexemes []string, length int) {
	tf, order := map[string]float64{}, []string(nil)
	add := func(text string, weight float64) (n int) {
		cut(text, func(t string, _ role) {
			n++
			if _, ok := tf[t]; !ok {
				if len(order) == maxDistinct {
					return
				}
				order = append(order, t)
			}
			tf[t] += weight
		})
		return n
	}
	add(title, titleWeight)
	length = add(context, contextWeight) + add(content, 1)
	lexemes = make([]string, len(order))
	for i, t := range order {
		lexemes[i] = Lexeme(collection, t, level(saturated(tf[t], float64(length), typical)))
	}
	return lexemes, length
}

// Lexeme is a term of a level in an inverted index of collections.
func Lexeme(collection int64, term string, level int) string {
	return LexemeOf(Stem(collection, term), level)
}

// LexemeOf is the lexeme of a stem.
func LexemeOf(stem string, level int) string { return stem + "=" + string('a'+rune(level)) }

// LevelOf gives the level of a lexeme.
func LevelOf(lexeme string) int { return min(max(int(lexeme[len(lexeme)-1])-'a', 0), Levels-1) }

// Stem is what the lexemes of a term, which go on with "=", have in common with
// those of all terms that it begins.
func Stem(collection int64, term string) string {
	var b strings.Builder
	b.WriteString(strconv.FormatInt(collection, 36))
	b.WriteByte('_')
	b.WriteString(term)
	return b.String()
}
