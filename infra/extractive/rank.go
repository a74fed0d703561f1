package extractive

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// query is a question as it is compared with texts.
type query struct {
	terms    []term
	words    []string // all words of the question, those without a subject too
	phrases  []string // stretches of it, see phrasesOf
	tests    bool     // asks about tests, whose code says nothing about anything else
	wants    *regexp.Regexp
	question string
}

const (
	synonymWorth = 0.6
	contextWorth = 0.5 // of a term that stands in the heading or the paragraph only
	codeEnough   = 0.6 // share of the question that a line of code must have
	tableRow     = 0.7 // worth of a row of a table, relative to a sentence
	apart        = 0.5 // worth of terms far from each other, relative to neighbours
	// same is how like the question a text is that repeats it.
	same = 0.75
)

var (
	asksTime   = regexp.MustCompile(`(?i)\bhow (?:long|soon|quickly|often)\b|(?:^|[.,;:!?]\s*|\b(?:and|by|since|until) )when\b|\btimeout\b|多久|多长时间|[几多少]+个?(?:天|小时|分钟|秒|周|月|年|日)|何时|什么时候`)
	asksNumber = regexp.MustCompile(`(?i)\bhow (?:many|much|large|big|far|high|old)\b|\b(?:default|limit|maximum|minimum|max|min|size|price|cost|number|budget|port)\b|多少|几[个次人元名位条]|多大|上限|默认|最多|最少`)
	asksTests  = regexp.MustCompile(`(?i)\btest|测试|テスト`)
	sourceName = regexp.MustCompile(`[\w-]+(?:/[\w.-]+)*\.(?:go|py|js|ts|java|c|h|rs|rb|sh)\b`)
	question   = regexp.MustCompile(`[?？]["'”’」』)）]*$`)
	isTime     = regexp.MustCompile(`(?i)(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|thirty)\b)[\d.,]*[\s-]?(?:ms|s|secs?|seconds?|min|minutes?|h|hours?|days?|weeks?|months?|years?|business|working)\b|\d:\d\d|[\d一二三四五六七八九十百两半]\s*个?(?:毫秒|秒|分钟|小时|天|日|周|星期|月|年|工作日|点)`)
	isNumber   = regexp.MustCompile(`(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|hundred|thousand)\b|[一二三四五六七八九十百千万两][个元次天名位份条年月周日小分秒十百千万]`)
)

func queryOf(question string) query {
	q := query{terms: termsOf(question), question: flat(question)}
	for _, w := range runs(question) {
		q.words = append(q.words, strings.ToLower(w))
	}
	q.phrases = phrasesOf(q.words)
	q.tests = asksTests.MatchString(question)
	switch {
	case asksTime.MatchString(question):
		q.wants = isTime
	case asksNumber.MatchString(question):
		q.wants = isNumber
	}
	return q
}

// flat is a text's words alone, so that quotation marks and spaces do not count.
func flat(text string) string { return strings.ToLower(strings.Join(runs(text), " ")) }

// strengths says for each term how well text has it: 1 itself, less for a word
// that is alike, 0 not.
func (q query) strengths(text string) []float64 {
	list := make([]float64, len(q.terms))
	bare := sourceName.ReplaceAllString(text, " ")
	b := bagOf(bare)
	all := b
	if bare != text {
		all = bagOf(text)
	}
	for i, t := range q.terms {
		switch {
		case b.has(t):
			list[i] = 1
		case all.has(t):
			list[i] = contextWorth
		case slices.ContainsFunc(synonyms[t.text], b.has):
			list[i] = synonymWorth
		}
	}
	return list
}

// weights rates each term by how few of the texts have it. Neighbouring
// characters that no text has are no word as long as others of their stretch
// are found.
func (q query) weights(texts [][]float64) []float64 {
	count := make([]int, len(q.terms))
	for _, s := range texts {
		for i, x := range s {
			if x > 0 {
				count[i]++
			}
		}
	}
	known := map[string]bool{}
	for i, t := range q.terms {
		known[t.word] = known[t.word] || count[i] > 0
	}
	list := make([]float64, len(q.terms))
	for i, n := range count {
		list[i] = math.Log(1 + float64(len(texts)+1)/float64(n+1))
		if t := q.terms[i]; t.han && n == 0 && known[t.word] {
			list[i] *= 0.2
		}
	}
	return list
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// merged is the strengths of a text together with those of what is around it.
func merged(own []float64, around ...[]float64) []float64 {
	list := slices.Clone(own)
	for _, a := range around {
		for i, x := range a {
			list[i] = max(list[i], contextWorth*x)
		}
	}
	return list
}

// likeness tells how far a text is the question, from 0 to 1.
func (q query) likeness(text string) float64 {
	words := runs(strings.ToLower(text))
	if len(words) == 0 || len(q.words) == 0 {
		return 0
	}
	if hasHan(text) {
		if len(q.question) > 0 && strings.Contains(flat(text), q.question) {
			return float64(utf8.RuneCountInString(q.question)) / float64(utf8.RuneCountInString(flat(text)))
		}
	}
	left := map[string]int{}
	for _, w := range q.words {
		left[w]++
	}
	both := 0
	for _, w := range words {
		if left[w] > 0 {
			left[w]--
			both++
		}
	}
	return 2 * float64(both) / float64(len(words)+len(q.words))
}

// repeats tells whether a text is the question again. A sentence that says
// something more, in the words of the question, is an answer.
func (q query) repeats(text string) bool {
	if q.likeness(text) < same {
		return false
	}
	if !sentenceEnd.MatchString(text) {
		return true
	}
	for _, w := range runs(strings.ToLower(text)) {
		if !slices.Contains(q.words, w) && !strings.Contains(q.question, w) {
			return false
		}
	}
	return true
}

var sentenceEnd = regexp.MustCompile(`[.。!！]["'”’」』)）]*$`)

// without takes the question itself out of a text, so that what repeats it, as a
// command line or a test does, is rated by what else it says.
func (q query) without(text string) string {
	if len(q.words) < 3 && utf8.RuneCountInString(q.question) < 8 || q.question == "" {
		return text // a word or two stand in what is asked for
	}
	if f := flat(text); strings.Contains(f, q.question) {
		return strings.ReplaceAll(f, q.question, " ")
	}
	return text
}

// hit rates a line that a search found. The question itself, as a heading or an
// entry of a list of questions, leads to what stands below it.
func (q query) hit(h line) []float64 {
	if !kindOf(h.path).code && !indented.MatchString(h.text) && q.likeness(h.text) >= same {
		return q.strengths(h.text)
	}
	return q.strengths(q.without(h.text))
}

var (
	emphasis = strings.NewReplacer("*", "", "`", "")
	stops    = strings.NewReplacer(": ", " ", ". ", " ")
)

// file is the path of a file, and nothing for a passage: those stay as the search
// has ranked them.
func file(path string) string {
	if strings.HasPrefix(path, handlePrefix) {
		return ""
	}
	return path
}

// unmarked is a sentence by which its copies are known: without what sets off
// words in one of them, as bold type or a colon.
func unmarked(text string) string {
	return strings.ToLower(strings.TrimRight(stops.Replace(emphasis.Replace(plain(text))), ".。"))
}

// rated is a sentence and how well it fits.
type rated struct {
	sentence
	score, share float64
}

// rate rates sentences of pages, best first. The order is the same for the same
// pages. What several files say in the same words counts once, in the better
// file.
func (q query) rate(pages []page) []rated {
	type candidate struct {
		sentence
		own, paragraph, heading []float64
		answers                 bool // stands below the question itself
		titled                  bool // stands right below a heading that has hardly more than its words
	}
	var list []candidate
	seen := map[string]bool{}
	pages = slices.Clone(pages)
	slices.SortStableFunc(pages, func(a, b page) int {
		return better(file(a.path), file(b.path))
	})
	for _, p := range pages {
		k := kindOf(p.path)
		all := p.sentences(k)
		blocks := map[int]string{}
		for _, s := range all {
			blocks[s.block] += q.without(s.text) + "\n"
		}
		asked := -10 // where the question itself stood last, among the sentences
		for i, s := range all {
			if !k.code && !s.code && q.repeats(s.text) {
				asked = i
				continue
			}
			words := unmarked(s.text)
			if q.repeats(s.text) || seen[words] {
				continue
			}
			seen[words] = true
			c := candidate{sentence: s, own: q.strengths(q.without(s.text)), paragraph: q.strengths(blocks[s.block]), heading: q.strengths(s.heading)}
			c.answers = !k.code && !s.code && (i <= asked+2 || s.nth < 2 && q.likeness(s.last) >= same)
			c.titled = !k.code && s.nth < 2 && (len(runs(s.last)) <= 4 || len(termsOf(s.last)) <= 4)
			list = append(list, c)
		}
	}
	texts := make([][]float64, len(list))
	for i, c := range list {
		texts[i] = c.own
	}
	weight := q.weights(texts)
	whole := 0.0
	for _, w := range weight {
		whole += w
	}
	var fit []rated
	for _, c := range list {
		own, both := dot(c.own, weight), dot(merged(c.own, c.paragraph, c.heading), weight)
		inHeading := dot(c.heading, weight)
		k := kindOf(c.path)
		if c.titled = c.titled && inHeading >= 0.8*whole; c.titled || c.answers {
			both = max(both, 0.9*whole)
		} else if own == 0 && (inHeading < 0.6*whole || c.nth > 3) {
			continue
		}
		n := 0.0
		for _, x := range c.own {
			n += x
		}
		score := (both + own) / 2 * k.factor * (1 + 0.2*max(0, n-1)) * q.cohesion(c.text)
		if n == float64(len(q.terms)) {
			score *= 1.25
		}
		if c.titled || c.answers {
			score = max(score, both*k.factor*(1-0.1*float64(min(c.nth, 2))))
		}
		if c.code {
			if score *= worth(c.text); k.test && !q.tests || both < codeEnough*whole {
				continue
			}
		}
		if question.MatchString(c.text) {
			score *= 0.3
		}
		switch {
		case q.wants != nil && q.wants.MatchString(c.text):
			score *= 1.5
		case c.row:
			score *= tableRow
		}
		// Long sentences hold more words of any kind.
		score /= 1 + math.Log(1+float64(utf8.RuneCountInString(c.text))/400)
		fit = append(fit, rated{c.sentence, score, both / whole})
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
	return fit
}
