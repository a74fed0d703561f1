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
		{tool: "list_files", phase: phaseSearch, ask: askList, take: takeList},
		{tool: "grep_files", phase: phaseSearch, ask: askGrep, take: takeGrep},
		{tool: "read_file", phase: phaseRead, ask: askRead, take: takeRead},
	}
}

// next gives the calls to make now; none means that it is time to answer.
func (t *turn) next() []request {
	if len(t.terms) == 0 {
		return nil
	}
	for phase := range phases {
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

func askList(*turn) []map[string]any { return []map[string]any{{}} }

// askGrep searches for the terms, and once more for their beginnings when that
// found nothing.
func askGrep(t *turn) []map[string]any {
	asks := []map[string]any{{"pattern": pattern(t.terms, 0), "max_results": 100}}
	if t.made[callKey("grep_files", encode(asks[0]))] && len(t.evidence.hits) == 0 {
		if loose := pattern(t.terms, 4); loose != asks[0]["pattern"] {
			asks = append(asks, map[string]any{"pattern": loose, "max_results": 100})
		}
	}
	return asks
}

// maxPattern is below what search tools take, in bytes.
const maxPattern = 400

// pattern is an alternation of the terms: words from their start, characters
// anywhere. With prefix > 0 of a word only so many bytes count.
func pattern(terms []term, prefix int) string {
	var words, characters []string
	size := 0
	for _, t := range terms {
		text := t.text
		if !t.han && prefix > 0 && isASCII(text) && len(text) > prefix {
			text = text[:prefix]
		}
		text = regexp.QuoteMeta(text)
		if size += len(text) + 1; size > maxPattern {
			break
		}
		if t.han || !isASCII(text) {
			characters = append(characters, text)
		} else if !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) > 0 {
		characters = append([]string{`\b(?:` + strings.Join(words, "|") + `)`}, characters...)
	}
	return strings.Join(characters, "|")
}

// readBefore and readLines are the window around a hit.
const (
	readBefore = 30
	readLines  = 120
)

// askRead reads the best files, or where the search found nothing the files
// whose names fit, or the only few that there are.
func askRead(t *turn) []map[string]any {
	places := t.evidence.best(t.terms, 3)
	if len(places) == 0 {
		for _, path := range t.evidence.files {
			if t.matches(path) || len(t.evidence.files) <= 3 {
				places = append(places, place{path, 1})
			}
		}
		places = places[:min(len(places), 3)]
	}
	var asks []map[string]any
	for _, p := range places {
		asks = append(asks, map[string]any{"path": p.path, "offset": max(1, p.line-readBefore), "limit": readLines})
	}
	return asks
}

func (t *turn) matches(text string) bool {
	return slices.ContainsFunc(found(t.terms, text), func(b bool) bool { return b })
}
