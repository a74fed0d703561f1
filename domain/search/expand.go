package search

import (
	"slices"
	"strings"
)

// MaxExpansions is how many other ways to ask Expand gives.
const MaxExpansions = 5

// Expand gives other ways to ask for what a query asks, made of the query alone:
// what stands in quotes or titles, and its parts between punctuation and
// conjunctions. Each looks for other terms than the query and than the ones
// before it; most queries have none.
func Expand(query string) []string {
	seen := []string{signatureOf(query)}
	var out []string
	for _, part := range append(quotedParts(query), strings.FieldsFunc(joining.Replace(" "+query+" "), separates)...) {
		part = strings.TrimSpace(part)
		s := signatureOf(part)
		if s == "" || slices.Contains(seen, s) || len(out) == MaxExpansions {
			continue
		}
		seen = append(seen, s)
		out = append(out, part)
	}
	return out
}

// signatureOf is the same for queries that look for the same terms; "" for one
// of lone characters.
func signatureOf(query string) string {
	var terms []string
	for _, t := range QueryTerms(query) {
		if !t.Prefix {
			terms = append(terms, t.Text)
		}
	}
	slices.Sort(terms)
	return strings.Join(terms, " ")
}

// joining puts a separator in place of words that join parts.
var joining = strings.NewReplacer(" and ", ";", " or ", ";", " And ", ";", " Or ", ";", " AND ", ";", " OR ", ";", "以及", ";", "或者", ";", "还是", ";", "并且", ";", "和", ";", "与", ";", "及", ";", "或", ";")

func separates(r rune) bool {
	return strings.ContainsRune(",;:?!，；：？！、。|/()（）\n\"“”「」『』《》", r)
}

// quotedParts gives what stands between marks that quote.
func quotedParts(query string) []string {
	var out []string
	for _, marks := range [][2]string{{`"`, `"`}, {"“", "”"}, {"「", "」"}, {"『", "』"}, {"《", "》"}} {
		rest := query
		for {
			_, after, ok := strings.Cut(rest, marks[0])
			if !ok {
				break
			}
			inside, behind, ok := strings.Cut(after, marks[1])
			if !ok {
				break
			}
			out, rest = append(out, inside), behind
		}
	}
	return out
}
