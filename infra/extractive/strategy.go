package extractive

import (
	"regexp"
	"slices"
	"strings"
)

// strategy is how one tool is used: what to ask it, as the state of the turn
// is, and how to understand what it says. Tools come in the order of the table,
// all of one phase before the next.
type strategy struct {
	tool  string
	phase int
	ask   func(*turn) []map[string]any
	// take reads an output. Arguments are those of the call, "" if unknown.
	// Lines that it does not understand are no evidence.
	take func(e *evidence, arguments, output string)
}

const (
	phaseSearch = iota
	phaseRead
	phases
)

// strategies is filled by init, since what it refers to refers to it.
var strategies []strategy

func init() {
	strategies = []strategy{
		{tool: searchTool, phase: phaseSearch, ask: askKnowledge, take: takePassages},
		{tool: "grep_chunks", phase: phaseSearch, ask: askPassages, take: takePassages},
		{tool: "list_files", phase: phaseSearch, ask: askList, take: takeList},
		{tool: "grep_files", phase: phaseSearch, ask: askGrep, take: takeGrep},
		{tool: "read_file", phase: phaseRead, ask: askRead, take: takeRead},
	}
}

// isSourceTool tells whether a tool reads what can be quoted.
func isSourceTool(name string) bool {
	return slices.ContainsFunc(strategies, func(s strategy) bool { return s.tool == name })
}

// next gives the calls to make now; none means that it is time to answer.
func (t *turn) next() []request {
	if len(t.terms) == 0 {
		return nil
	}
	for phase := range phases {
		if phase == phaseSearch && !t.parallel && t.rounds >= maxRounds-2 {
			continue // leave something for reading
		}
		var calls []request
		for _, s := range strategies {
			if s.phase != phase || !t.tools[s.tool] {
				continue
			}
			for _, arguments := range s.ask(t) {
				c := request{s.tool, encode(arguments)}
				if !t.made[callKey(c.tool, c.arguments)] {
					calls = append(calls, c)
				}
			}
		}
		if len(calls) > 0 {
			if !t.parallel {
				calls = calls[:1]
			}
			return calls
		}
	}
	return nil
}

// plan is one line about the calls.
func (t *turn) plan(calls []request) string {
	for _, c := range calls {
		if c.tool == "read_file" {
			return t.say("Reading the places that were found.", "阅读找到的位置。")
		}
	}
	var words []string
	for _, w := range t.terms {
		if !slices.Contains(words, w.word) {
			words = append(words, w.word)
		}
	}
	return t.say("Searching for: ", "搜索：") + strings.Join(words, t.say(", ", "、"))
}

const searchTool = "knowledge_search"

// askKnowledge asks the knowledge bases for the question as it is.
func askKnowledge(t *turn) []map[string]any {
	q := []rune(t.text)
	return []map[string]any{{"queries": []string{string(q[:min(len(q), 1000)])}}}
}

// askPassages looks for the words themselves, if the search by meaning has found
// nothing that fits.
func askPassages(t *turn) []map[string]any {
	if t.tools[searchTool] && (!t.used[searchTool] || len(t.quotes()) > 0) {
		return nil
	}
	if p := pattern(t.terms, 0); p != "" {
		return []map[string]any{{"query": p}}
	}
	return nil
}

// askList lists the files: at once where that costs no round, else when searches
// have found nothing.
func askList(t *turn) []map[string]any {
	if !t.parallel && (t.rounds < 2 || len(t.evidence.hits) > 0) {
		return nil
	}
	return []map[string]any{{}}
}

// askGrep searches prose for lines that have several of the terms, then for
// those that have any; everything, when prose has too little; and the terms'
// beginnings, when nothing was found. A search lists files by name and ends
// where it has enough, so narrow ones come first.
func askGrep(t *turn) []map[string]any {
	var asks []map[string]any
	asked := true
	add := func(pattern, glob string) {
		if pattern == "" {
			return
		}
		ask := map[string]any{"pattern": pattern, "max_results": 200}
		if glob != "" {
			ask["glob"] = glob
		}
		asked = asked && t.made[callKey("grep_files", encode(ask))]
		asks = append(asks, ask)
	}
	any := pattern(t.terms, 0)
	add(together(t.terms, 3), proseGlob)
	add(together(t.terms, 2), proseGlob)
	add(any, proseGlob)
	if !asked || t.covered() {
		return asks
	}
	add(together(t.terms, 2), "")
	add(any, "")
	if loose := pattern(t.terms, 4); asked && len(t.evidence.hits) == 0 && loose != any {
		add(loose, "")
	}
	return asks
}

// covered tells whether a place in prose has most of what the question asks.
func (t *turn) covered() bool {
	var texts [][]float64
	hits := t.evidence.distinct()
	for _, h := range hits {
		texts = append(texts, t.hit(h))
	}
	weight := t.weights(texts)
	whole := 0.0
	for _, w := range weight {
		whole += w
	}
	for i, h := range hits {
		if k := kindOf(h.path); !k.code && k.factor >= 0.8 && dot(texts[i], weight) >= 0.6*whole {
			return true
		}
	}
	return false
}

// together is a pattern for lines that have n different words of the question,
// in any order; "" if there are fewer or they are too long.
func together(terms []term, n int) string {
	var groups [][]term
	for _, t := range terms {
		if last := len(groups) - 1; t.han && last >= 0 && groups[last][0].word == t.word {
			groups[last] = append(groups[last], t)
		} else {
			groups = append(groups, []term{t})
		}
	}
	if len(groups) < n || n > 2 && len(groups) > 4 {
		return ""
	}
	for _, also := range []bool{n == 2, false} {
		if p := togetherOf(groups, n, also); len(p) <= maxPattern {
			return p
		}
	}
	return ""
}

// grouped puts an alternation in parentheses.
func grouped(pattern string) string {
	if i := strings.Index(pattern, "|"); i < 0 || strings.HasPrefix(pattern, `\b(?:`) && strings.Index(pattern, ")") == len(pattern)-1 {
		return pattern
	}
	return "(?:" + pattern + ")"
}

func togetherOf(groups [][]term, n int, also bool) string {
	parts := make([]string, len(groups))
	for i, g := range groups {
		parts[i] = grouped(alternatives(g, also, 0))
	}
	var list []string
	if n == 2 {
		for i := range parts {
			others := slices.Delete(slices.Clone(parts), i, i+1)
			if len(others) > 1 {
				list = append(list, parts[i]+".*(?:"+strings.Join(others, "|")+")")
			} else {
				list = append(list, parts[i]+".*"+others[0])
			}
		}
		return strings.Join(list, "|")
	}
	for i := range parts {
		for j := range parts {
			for k := range parts {
				if i != j && j != k && i != k {
					list = append(list, parts[i]+".*"+parts[j]+".*"+parts[k])
				}
			}
		}
	}
	return strings.Join(list, "|")
}

// maxPattern is below what search tools take, in bytes.
const maxPattern = 400

// pattern is an alternation of the terms and of words like them, as far as
// there is room. With prefix > 0 of a word only so many bytes count.
func pattern(terms []term, prefix int) string { return alternatives(terms, prefix == 0, prefix) }

// alternatives gives words from their start, characters anywhere.
func alternatives(terms []term, also bool, prefix int) string {
	var words, characters []string
	size := 0
	add := func(t term) {
		text := t.text
		if !t.han && !t.raw && prefix > 0 && isASCII(text) && len(text) > prefix {
			text = text[:prefix]
		}
		text = regexp.QuoteMeta(text)
		if t.raw {
			text = strings.NewReplacer("_", "[_ -]?", "-", "[_ -]?").Replace(text)
		}
		if size+len(text)+1 > maxPattern-10 || slices.Contains(words, text) || slices.Contains(characters, text) {
			return
		}
		size += len(text) + 1
		if isASCII(text) {
			words = append(words, text)
		} else {
			characters = append(characters, text)
		}
	}
	for _, t := range terms {
		add(t)
	}
	if also {
		for _, t := range terms {
			for _, s := range synonyms[t.text] {
				add(s)
			}
		}
	}
	switch {
	case len(words) == 1:
		characters = append([]string{`\b` + words[0]}, characters...)
	case len(words) > 1:
		characters = append([]string{`\b(?:` + strings.Join(words, "|") + `)`}, characters...)
	}
	return strings.Join(characters, "|")
}

// askRead reads the best places, four more when those answer nothing, and where
// the search found nothing the files whose names fit, or the only few that there
// are.
func askRead(t *turn) []map[string]any {
	asks := readings(t, 4)
	for _, a := range asks {
		if !t.made[callKey("read_file", encode(a))] {
			return asks
		}
	}
	if len(t.quotes()) == 0 {
		return readings(t, 8)
	}
	return asks
}

func readings(t *turn, n int) []map[string]any {
	windows := t.evidence.best(t.query, n)
	if len(windows) == 0 {
		for _, path := range t.evidence.files {
			if t.matches(path) || len(t.evidence.files) <= 3 {
				windows = append(windows, windowAt(line{path: path}))
			}
		}
		windows = windows[:min(len(windows), 3)]
	}
	var asks []map[string]any
	for _, w := range windows {
		asks = append(asks, map[string]any{"path": w.path, "offset": w.from, "limit": w.limit})
	}
	return asks
}

func (t *turn) matches(text string) bool {
	return slices.ContainsFunc(t.strengths(text), func(x float64) bool { return x > 0 })
}
