package extractive

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxQuotes = 4
	maxQuote  = 400 // runes of one quote
	// enough is the share of the question's weight that the best sentence,
	// together with its heading, must have.
	enough = 0.34
)

// answer is the whole answer, in the language of the question.
func (t *turn) answer() string {
	var b strings.Builder
	b.WriteString(t.say("I am the built-in extractive model: I quote what the sources say, I do not reason about it.\n\n",
		"我是内置的摘录模型：只引用资料原文，不做推理。\n\n"))
	if !t.sources {
		b.WriteString(t.say("No folder and no knowledge base is open for this question, so there is nothing to quote from. `refold ask --dir FOLDER \"question\"` and "+
			"`refold ask --kb NAME \"question\"` open one; for questions about anything else, connect a language model.",
			"这次提问没有打开文件夹或知识库，所以没有可以引用的资料。用 `refold ask --dir 文件夹 \"问题\"` 或 `refold ask --kb 名称 \"问题\"` 打开一个；其他问题请接入语言模型。"))
		return b.String()
	}
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
		if handle, ok := strings.CutPrefix(q.path, handlePrefix); ok {
			fmt.Fprintf(&b, "\n> %s\n<ref id=\"%s\"/>\n", uncited(quoted(q.text)), handle)
			continue
		}
		fmt.Fprintf(&b, "\n> %s\n(%s:%d)\n", quoted(q.text), plain(q.path), q.line)
	}
	return strings.TrimRight(b.String(), "\n")
}

// quotes picks the sentences that fit best, best first. Neighbours become one
// quote.
func (t *turn) quotes() []sentence {
	var quotes []sentence
	fit := slices.DeleteFunc(t.rate(t.evidence.found()), func(r rated) bool { return r.share < enough })
	// Samples that tests use say nothing about the thing itself.
	sample := func(r rated) bool { return samplePath.MatchString(r.path) }
	if slices.ContainsFunc(fit, func(r rated) bool { return !sample(r) }) {
		fit = slices.DeleteFunc(fit, sample)
	}
	for _, f := range fit {
		if f.score < fit[0].score*0.5 {
			break
		}
		i := slices.IndexFunc(quotes, func(q sentence) bool {
			return q.path == f.path && q.block == f.block && !f.code && (q.end == f.line || q.end+1 == f.line) && follows(q, f.sentence) &&
				utf8.RuneCountInString(q.text+f.text) < maxQuote
		})
		switch {
		case i >= 0:
			quotes[i].text = joined(quotes[i].text, f.text)
			quotes[i].end, quotes[i].nth = f.end, f.nth
		case len(quotes) < maxQuotes:
			quotes = append(quotes, f.sentence)
		}
	}
	return quotes
}

// follows tells whether b is the sentence right after a.
func follows(a, b sentence) bool { return b.nth == a.nth+1 }

func joined(a, b string) string {
	if last, _ := utf8.DecodeLastRuneInString(a); last > unicode.MaxASCII {
		return a + b
	}
	return a + " " + b
}

// nothing says that nothing fits and what to try.
func (t *turn) nothing() string {
	var b strings.Builder
	b.WriteString(t.say("I found nothing that answers your question. Try other words, ideally those that the files use",
		"没有找到能回答您问题的内容。可以换一些说法，最好用文件里的原词"))
	if len(t.evidence.files) > 0 {
		b.WriteString(t.say("; there is: ", "；现有文件：") + t.names(t.evidence.files))
	}
	if len(t.evidence.closed) > 0 {
		b.WriteString(t.say(". In an encoding that cannot be told, so not looked into but for ASCII: ", "。无法判断编码、只检索了其中 ASCII 字符的文件：") + t.names(t.evidence.closed))
	}
	b.WriteString(t.say(". For questions that need reasoning, connect a language model.", "。需要推理的问题，请接入语言模型。"))
	return b.String()
}

// names lists the first paths.
func (t *turn) names(paths []string) string {
	var names []string
	for _, f := range paths[:min(len(paths), 5)] {
		names = append(names, plain(f))
	}
	text := strings.Join(names, t.say(", ", "、"))
	if n := len(paths) - len(names); n > 0 {
		text += t.say(fmt.Sprintf(" and %d more", n), fmt.Sprintf("，另有 %d 个", n))
	}
	return text
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

var cites = regexp.MustCompile(`(?i)<(/?(?:ref|kb|web)\b)|\[(\s*[cdbw][0-9]+[^\]]*)\]`)

// uncited is a quote that cannot pass for a citation of ours.
func uncited(text string) string {
	return cites.ReplaceAllStringFunc(text, func(m string) string {
		return strings.NewReplacer("<", "‹", "[", "(", "]", ")").Replace(m)
	})
}

func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
