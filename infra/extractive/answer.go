package extractive

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxQuotes = 4
	maxQuote  = 400 // runes of one quote
	// enough is the share of the question's weight that the best sentence,
	// together with its heading, must have.
	enough = 0.3
)

// answer is the whole answer, in the language of the question.
func (t *turn) answer() string {
	var b strings.Builder
	b.WriteString(t.say("I am the built-in extractive model: I quote what the sources say, I do not reason about it.\n\n",
		"我是内置的摘录模型：只引用资料原文，不做推理。\n\n"))
	if len(t.terms) == 0 {
		b.WriteString(t.say("Your message has no words that I could look for. Ask about something that is in the files.",
			"您的消息里没有可以检索的词。请就文件中的内容提问。"))
		return b.String()
	}
	quotes := t.quotes()
	if len(quotes) == 0 {
		b.WriteString(t.nothing())
		return b.String()
	}
	b.WriteString(t.say("These places fit your question:\n", "与问题相符的内容如下：\n"))
	for _, q := range quotes {
		fmt.Fprintf(&b, "\n> %s\n(%s:%d)\n", quoted(q.text), plain(q.path), q.line)
	}
	return strings.TrimRight(b.String(), "\n")
}

// quotes picks the sentences that fit best, best first.
func (t *turn) quotes() []sentence {
	var list []sentence
	for _, p := range t.evidence.pages {
		list = append(list, p.sentences()...)
	}
	if len(t.evidence.pages) == 0 {
		for _, h := range t.evidence.hits {
			list = append(list, page{h.path, []line{h}}.sentences()...)
		}
	}
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = s.text
	}
	weight := weights(t.terms, texts)
	whole := 0.0
	for _, w := range weight {
		whole += w
	}
	type rated struct {
		sentence
		score, share float64
	}
	var fit []rated
	seen := map[string]bool{}
	for _, s := range list {
		own := score(t.terms, weight, s.text)
		if own == 0 || seen[s.text] {
			continue
		}
		seen[s.text] = true
		both := score(t.terms, weight, s.heading+"\n"+s.text)
		// Long sentences hold more words of any kind.
		length := 1 + math.Log(1+float64(utf8.RuneCountInString(s.text))/200)
		fit = append(fit, rated{s, (own + (both-own)/2) / length, both / whole})
	}
	slices.SortStableFunc(fit, func(a, b rated) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var quotes []sentence
	if len(fit) == 0 || fit[0].share < enough {
		return nil
	}
	for _, f := range fit {
		if len(quotes) < maxQuotes && f.score >= fit[0].score*0.5 {
			quotes = append(quotes, f.sentence)
		}
	}
	return quotes
}

// nothing says that nothing fits and what to try.
func (t *turn) nothing() string {
	var b strings.Builder
	b.WriteString(t.say("I found nothing that answers your question. Try other words, ideally those that the files use",
		"没有找到能回答您问题的内容。可以换一些说法，最好用文件里的原词"))
	if n := len(t.evidence.files); n > 0 {
		var names []string
		for _, f := range t.evidence.files[:min(n, 5)] {
			names = append(names, plain(f))
		}
		b.WriteString(t.say("; there is: ", "；现有文件："))
		b.WriteString(strings.Join(names, t.say(", ", "、")))
		if n > len(names) {
			b.WriteString(t.say(fmt.Sprintf(" and %d more", n-len(names)), fmt.Sprintf("，另有 %d 个", n-len(names))))
		}
	}
	b.WriteString(t.say(". For questions that need reasoning, connect a language model.", "。需要推理的问题，请接入语言模型。"))
	return b.String()
}

// quoted shows a sentence of a file as text: on one line, shortened, and without
// an image that a reader's screen would fetch.
func quoted(text string) string {
	text = plain(text)
	if runes := []rune(text); len(runes) > maxQuote {
		text = string(runes[:maxQuote]) + " …"
	}
	return strings.ReplaceAll(text, "![", `!\[`)
}

func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
