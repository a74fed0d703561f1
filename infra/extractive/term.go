package extractive

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// term is something that the question is about: the stem of a word, or two
// neighbouring characters of a script without spaces.
type term struct {
	text string // as compared, lower case
	word string // as asked
	han  bool   // matches anywhere, not only at the start of a word
	raw  bool   // so does it: a name such as page_size, a phrase
}

// maxTerms bounds the work for long questions.
const maxTerms = 24

var stopWords = setOf(`a about after all also am an and any are as at be been before being but by can could did do does doing
done down during each either else ever every find for from get give got had has have having he hear her here him his how i if in into is it its
just know let like list long look make many may me might more most much must my need no not of off on one only or other our out over own
please say shall she should show so some such tell than thank that the their them then there these they this those through to too under until up
us use very want was we were what when where whether which while who whom whose why will with would you your file files document documents
hello hi thanks explain describe mean means happen happens happened`)

// stopRunes are Chinese words that carry no subject, longest first where one
// begins another.
var stopRunes = strings.NewReplacer(pairs(`为什么 怎么样 怎么办 是不是 能不能 可不可以 有没有 是什么 请问一下 请问 告诉 一次 一个 一些 一种 每次 每个 之后 以后 之前 以前 然后 时候 什么 怎么 怎样 如何 多少 哪些 哪里 哪个 哪一 多久 多长时间 几天 几个
可以 需要 应该 能够 是否 一下 我们 你们 他们 它们 我 你 您 他 她 它 这个 那个 这些 那些 关于 以及 或者 还是 如果 的话 文件 文档 查找 帮忙 帮 请
的 了 吗 呢 吧 啊 呀 么 是 在 有 和 与 或 就 都 也 还 要 会 能 对 从 到 被 把 给 让 用 于 之 其 及 并 但 而 且 谁 何 几 哪 这 那 说 想 很 最 更 可`)...)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

func pairs(words string) []string {
	var list []string
	for _, w := range strings.Fields(words) {
		list = append(list, w, " ")
	}
	return list
}

func hasHan(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// hasKana tells Japanese.
func hasKana(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana) })
}

// unspaced tells whether a rune is of a script that is written without spaces.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) || r == 'ー'
}

// withoutHiragana leaves of a Japanese question its nouns: endings and particles
// are written in hiragana. A question in nothing else stays.
func withoutHiragana(question string) string {
	bare := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Hiragana, r) {
			return ' '
		}
		return r
	}, question)
	if strings.ContainsFunc(bare, unicode.IsLetter) {
		return bare
	}
	return question
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// termsOf gives the distinct terms of a question in their order.
func termsOf(question string) []term {
	var list []term
	seen := map[string]bool{}
	add := func(t term) {
		if !seen[t.text] && len(list) < maxTerms {
			seen[t.text] = true
			list = append(list, t)
		}
	}
	for _, name := range names.FindAllString(question, -1) {
		add(term{text: strings.ToLower(name), word: name, raw: true})
		question = strings.Replace(question, name, " ", 1)
	}
	switch {
	case hasKana(question):
		question = withoutHiragana(question)
	case hasHan(question):
		question = stopRunes.Replace(question)
	}
	for _, run := range runs(question) {
		if runes := []rune(run); unspaced(runes[0]) {
			if len(runes) == 1 {
				continue
			}
			for _, part := range segments(run) {
				runes := []rune(part)
				if len(runes) == 1 && synonyms[part] != nil {
					add(term{text: part, word: run, han: true})
				}
				for i := range len(runes) - 1 {
					add(term{text: string(runes[i : i+2]), word: run, han: true})
				}
			}
			continue
		}
		lower := strings.ToLower(run)
		if stem := stemOf(lower); !stopWords[lower] && len(stem) > 1 {
			add(term{text: stem, word: run})
		}
	}
	return list
}

// segments cuts a stretch before and after the words that have synonyms, so that
// no neighbours across their ends are looked for.
func segments(run string) []string {
	var list []string
	from := 0
	for i := 0; i < len(run); {
		if key := run[i:min(len(run), i+6)]; len(key) == 6 && synonyms[key] != nil { // two characters
			list = append(list, run[from:i], key)
			i += len(key)
			from = i
			continue
		}
		_, size := utf8.DecodeRuneInString(run[i:])
		i += size
	}
	return append(list, run[from:])
}

// word is a word of a text, or a stretch of an unspaced script, and where it
// begins, in runes.
type word struct {
	text string
	at   int
}

// wordsOf cuts text into words and into stretches of an unspaced script.
func wordsOf(text string) []word {
	var list []word
	var b strings.Builder
	script := false
	begin, at := 0, 0
	end := func() {
		if b.Len() > 0 {
			list = append(list, word{b.String(), begin})
			b.Reset()
		}
	}
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
		default:
			if unspaced(r) != script {
				end()
				script = !script
			}
			if b.Len() == 0 {
				begin = at
			}
			b.WriteRune(r)
		}
		at++
	}
	end()
	return list
}

// runs is wordsOf without the places.
func runs(text string) []string {
	var list []string
	for _, w := range wordsOf(text) {
		list = append(list, w.text)
	}
	return list
}

// stemOf takes common English endings off a lower-case word, so that refund,
// refunds and refunded are one.
func stemOf(w string) string {
	if !isASCII(w) || len(w) < 4 {
		return w
	}
	for _, s := range []struct{ ending, instead string }{
		{"ational", "ate"}, {"ations", "at"}, {"ation", "at"}, {"ments", ""}, {"ment", ""}, {"ances", ""}, {"ance", ""},
		{"ies", "y"}, {"ied", "y"}, {"ings", ""}, {"ing", ""}, {"edly", ""}, {"ed", ""}, {"ers", ""}, {"er", ""},
		{"ally", ""}, {"ly", ""}, {"als", ""}, {"al", ""}, {"sses", "ss"}, {"es", ""}, {"ss", "ss"}, {"s", ""}, {"e", ""},
	} {
		if base, ok := strings.CutSuffix(w, s.ending); ok && len(base) >= 3 {
			w = base + s.instead
			break
		}
	}
	if base, ok := strings.CutSuffix(w, "er"); ok && len(base) >= 3 {
		w = base // ordered, order
	}
	if n := len(w); n > 3 && w[n-1] == w[n-2] && strings.IndexByte("aeiouls", w[n-1]) < 0 {
		w = w[:n-1] // planned, plan
	}
	if w, ok := strings.CutSuffix(w, "e"); ok && len(w) >= 3 {
		return w
	}
	if base, ok := strings.CutSuffix(w, "y"); ok && len(base) >= 3 {
		return base // so that the search finds both policy and policies
	}
	return w
}

// names are written with signs inside, such as page_size or read-only.
var names = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+`)

var signs = strings.NewReplacer("_", " ", "-", " ")

// bag is a text made ready for looking up terms.
type bag struct {
	lower, spaced string
	stems         []string
}

func bagOf(text string) bag {
	b := bag{lower: strings.ToLower(text)}
	b.spaced = signs.Replace(b.lower)
	seen := map[string]bool{}
	add := func(w string) {
		if s := stemOf(strings.ToLower(w)); !seen[s] {
			seen[s] = true
			b.stems = append(b.stems, s)
		}
	}
	for _, w := range runs(text) {
		add(w)
		for _, part := range humps(w) {
			add(part)
		}
	}
	return b
}

// humps gives the parts of a name such as ToolApprovalTimeout, none for a plain
// word.
func humps(w string) []string {
	var parts []string
	from, lower := 0, false
	for i, r := range w {
		if unicode.IsUpper(r) && lower {
			parts = append(parts, w[from:i])
			from = i
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
	}
	if from > 0 {
		parts = append(parts, w[from:])
	}
	return parts
}

func (b bag) has(t term) bool {
	if t.han || t.raw {
		return strings.Contains(b.lower, t.text) || t.raw && strings.Contains(b.spaced, signs.Replace(t.text))
	}
	for _, s := range b.stems {
		if s == t.text || len(t.text) >= 5 && strings.HasPrefix(s, t.text) || len(s) >= 5 && strings.HasPrefix(t.text, s) {
			return true
		}
	}
	return false
}
