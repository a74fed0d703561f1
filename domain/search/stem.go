package search

import "strings"

// stem takes the endings off an English word, after Porter's algorithm of 1980:
// connected, connecting and connection become connect. Words of up to two letters
// stay. The word is of the letters a to z.
func stem(word string) string {
	if len(word) < 3 {
		return word
	}
	w := plurals(word)
	w = pastAndGerund(w)
	if strings.HasSuffix(w, "y") && hasVowel(w[:len(w)-1]) {
		w = w[:len(w)-1] + "i"
	}
	w = replace(w, 0, doubled)
	w = replace(w, 0, derived)
	w = residual(w)
	if s := strings.TrimSuffix(w, "e"); len(s) < len(w) && (measure(s) > 1 || measure(s) == 1 && !endsShort(s)) {
		w = s
	}
	if strings.HasSuffix(w, "ll") && measure(w) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

// consonant tells whether the letter at i is one; y is one at the start and
// after a vowel.
func consonant(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

// measure counts how often vowels are followed by consonants.
func measure(w string) (m int) {
	vowel := false
	for i := range len(w) {
		c := consonant(w, i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

func endsDouble(w string) bool {
	n := len(w)
	return n > 1 && w[n-1] == w[n-2] && consonant(w, n-1)
}

// endsShort tells whether a word ends in consonant, vowel, consonant, the last
// none of w, x and y.
func endsShort(w string) bool {
	n := len(w)
	return n > 2 && consonant(w, n-1) && !consonant(w, n-2) && consonant(w, n-3) && !strings.ContainsRune("wxy", rune(w[n-1]))
}

func plurals(w string) string {
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"):
		return w
	}
	return strings.TrimSuffix(w, "s")
}

func pastAndGerund(w string) string {
	if s, ok := strings.CutSuffix(w, "eed"); ok {
		if measure(s) > 0 {
			return w[:len(w)-1]
		}
		return w
	}
	s, ok := strings.CutSuffix(w, "ed")
	if !ok {
		s, ok = strings.CutSuffix(w, "ing")
	}
	switch {
	case !ok || !hasVowel(s):
		return w
	case strings.HasSuffix(s, "at"), strings.HasSuffix(s, "bl"), strings.HasSuffix(s, "iz"):
		return s + "e"
	case endsDouble(s) && !strings.ContainsRune("lsz", rune(s[len(s)-1])):
		return s[:len(s)-1]
	case measure(s) == 1 && endsShort(s):
		return s + "e"
	}
	return s
}

type ending struct{ from, to string }

// doubled are endings of two suffixes; of those that share an end the longest
// comes first.
var doubled = []ending{
	{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"abli", "able"}, {"alli", "al"},
	{"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"}, {"alism", "al"},
	{"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"},
}

var derived = []ending{{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}}

// replace changes the first ending that fits, if enough of a word is left.
func replace(w string, least int, list []ending) string {
	for _, e := range list {
		if w[len(w)-1] != e.from[len(e.from)-1] {
			continue // cheaper than the comparison
		}
		if s, ok := strings.CutSuffix(w, e.from); ok {
			if measure(s) > least {
				return s + e.to
			}
			return w
		}
	}
	return w
}

var residue = []string{"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"}

func residual(w string) string {
	for _, r := range residue {
		if w[len(w)-1] != r[len(r)-1] {
			continue
		}
		s, ok := strings.CutSuffix(w, r)
		if !ok {
			continue
		}
		if measure(s) > 1 && (r != "ion" || strings.HasSuffix(s, "s") || strings.HasSuffix(s, "t")) {
			return s
		}
		return w
	}
	return w
}
