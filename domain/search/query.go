package search

import (
	"strings"
)

// MaxTerms is how many terms of a query are looked for.
const MaxTerms = 96

// Term is what a query looks for. A prefix is a lone character of a script
// without spaces: it stands for every term that it begins.
type Term struct {
	Text   string
	Prefix bool
}

// QueryTerms cuts a query into terms, each once, in order, at most MaxTerms.
// Words that questions are made of are left out unless nothing else is there.
// It depends on nothing but the text: no character has a meaning of its own.
func QueryTerms(query string) []Term {
	out := queryTerms(asked.Replace(fold(query)), false)
	if len(out) == 0 {
		out = queryTerms(query, true)
	}
	return out
}

func queryTerms(text string, all bool) []Term {
	var words, lone []Term
	seen := map[string]bool{}
	cut(text, func(t string, r role) {
		if r == last || seen[t] || !all && stop[t] {
			return
		}
		seen[t] = true
		if r == single {
			lone = append(lone, Term{t, true})
		} else if len(words) < MaxTerms {
			words = append(words, Term{t, false})
		}
	})
	// Beside real words a lone character says little and fits much.
	if len(words) < 2 {
		words = append(words, lone[:min(len(lone), 4)]...)
	}
	return words
}

// asked takes out what Chinese questions are made of, so that no pair of
// characters reaches into it.
var asked = strings.NewReplacer(spaced("请问", "有多少", "有哪些", "有什么", "需要多久", "多久", "为什么", "怎么样", "怎么办", "怎么", "怎样", "如何", "什么", "哪些", "哪个", "哪里", "哪儿", "哪种", "多少", "是否", "能否", "可否",
	"能不能", "可不可以", "有没有", "是不是", "可以", "吗", "呢", "？", "?")...)

func spaced(words ...string) (out []string) {
	for _, w := range words {
		out = append(out, w, " ")
	}
	return out
}

// stop holds the terms that English questions are made of.
var stop = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`a about am an and any are as at be been being but by can could did do does doing for from had has have how i if in into
is it its me my of on or our should so some than that the their them then there these they this those to us was we were what when where which
who whom whose why will with would you your please tell`) {
		out[stem(w)] = true
	}
	return out
}()
