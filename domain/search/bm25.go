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

// Levels is how many levels of impact an inverted list is divided into: what
// share of its idf a term gives to a text. Those with more are read first.
const Levels = 4

// A level holds what is below its bound; mid stands for all of it. The bounds
// were chosen for texts around typical terms long: what a level is worth is only
// used to choose which texts are scored exactly.
var (
	bounds = [Levels - 1]float64{0.7, 1.1, 1.5}
	mid    = [Levels]float64{0.5, 0.9, 1.3, 1.8}
)

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
		sat, level := saturated(tf[t], float64(length), typical), 0
		for level < Levels-1 && sat >= bounds[level] {
			level++
		}
		lexemes[i] = Lexeme(collection, t, level)
	}
	return lexemes, length
}

// Lexeme is a term of a level in an inverted index of collections.
func Lexeme(collection int64, term string, level int) string {
	return Stem(collection, term) + "=" + string('0'+rune(level))
}

// Stem is what the lexemes of a term have in common; those of the terms that it
// begins, too, as far as they do not go on with "=".
func Stem(collection int64, term string) string {
	var b strings.Builder
	b.WriteString(strconv.FormatInt(collection, 36))
	b.WriteByte('_')
	b.WriteString(term)
	return b.String()
}
