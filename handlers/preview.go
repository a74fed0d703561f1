package handlers

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"refold/domain/run"
	"refold/domain/tool"
)

// Budget of the tool results of the current turn, in tokens.
const (
	minResults   = 8192
	maxResults   = 32768
	previewStep  = 256 // previews are made for budgets in such steps, so that they are made seldom
	previewLeast = 128 // a smaller preview says less than the marker
)

// resultBudget is a fifth of the window within those bounds, and never more than
// half of a small one. Without a window there is no budget.
func resultBudget(window int) int {
	if window >= run.NoWindow {
		return window
	}
	return min(min(max(window/5, minResults), maxResults), window/2)
}

// short is a shortened result in the outgoing copy of a message.
type short struct {
	budget  int // that it was made for; 0 = the marker alone
	message ModelMessage
	tokens  int
}

// results gives the messages of the current turn as they are sent: the newest
// tool results whole, older ones as previews as long as the budget lasts, then
// as a marker that says how to get them. Only the copy is changed.
func (p *prompt) results(units []unit, sc scale) []unit {
	left := resultBudget(p.window)
	out := slices.Clone(units)
	for i := len(out) - 1; i >= 0; i-- {
		u := &out[i]
		copied := false
		for k := len(u.messages) - 1; k >= 0; k-- {
			if u.messages[k].Role != RoleTool {
				continue
			}
			if cost := sc.cost(u.tokens[k]); cost <= left {
				left -= cost
				continue
			}
			s := p.shorten(u.source[k], u.tokens[k], sc.room(left))
			left = 0
			if s.tokens >= u.tokens[k] {
				continue // it is as short as that already
			}
			if !copied {
				u.messages, u.tokens, copied = slices.Clone(u.messages), slices.Clone(u.tokens), true
			}
			u.total += s.tokens - u.tokens[k]
			u.messages[k], u.tokens[k] = s.message, s.tokens
		}
	}
	return out
}

// shorten makes the largest preview of a result of a number of tokens, or the
// marker. The last one of each result is remembered.
func (p *prompt) shorten(m run.Message, tokens, budget int) short {
	if budget -= budget % previewStep; budget < previewLeast || budget >= tokens {
		budget = 0
	}
	if s, ok := p.shorts[m.CallID]; ok && s.budget == budget {
		return s
	}
	if p.shorts == nil {
		p.shorts = map[string]short{}
	}
	s := p.preview(m, budget)
	p.shorts[m.CallID] = s
	return s
}

// preview makes the longest preview of a result that fits a budget of tokens.
func (p *prompt) preview(m run.Message, budget int) short {
	total := utf8.RuneCountInString(m.Content)
	how := "Make the call again if it is needed."
	if p.canRead {
		how = fmt.Sprintf("To read it, call read_tool_result with call_id %q.", m.CallID)
	}
	marker := ModelMessage{Role: m.Role, CallID: m.CallID, Name: m.Name,
		Content: fmt.Sprintf("[Left out to save space: this result has %d characters. %s]", total, how)}
	best := short{budget: budget, message: marker, tokens: TokensOf(p.counter, marker)}
	if budget < best.tokens {
		return best
	}
	build := func(n int) ModelMessage {
		head, tail := ends(m.Content, n/4, n-n/4)
		try := m
		try.Content = head + previewGap + tail
		message := marker
		message.Content = fmt.Sprintf("[Shortened to save space: %d of %d characters follow. %s]\n", n, total, how) + framed(try)
		return message
	}
	// The frame is made twice only: for nothing, to know what it takes, and for
	// what fits beside it.
	frame := TokensOf(p.counter, build(0))
	lo, hi := 0, min(total-1, (budget-frame)*8)
	for lo < hi {
		n := (lo + hi + 1) / 2
		head, tail := ends(m.Content, n/4, n-n/4)
		if frame+p.counter.Count(head)+p.counter.Count(tail) <= budget {
			lo = n
		} else {
			hi = n - 1
		}
	}
	for ; lo > 0; lo = lo * 9 / 10 { // framing may add to a text
		if message := build(lo); TokensOf(p.counter, message) <= budget {
			best.message, best.tokens = message, TokensOf(p.counter, message)
			break
		}
	}
	return best
}

const previewGap = "\n... [left out here] ...\n"

// ends gives the first and the last runes of a text that is longer than both.
func ends(text string, first, last int) (string, string) {
	a := 0
	for ; first > 0 && a < len(text); first-- {
		_, n := utf8.DecodeRuneInString(text[a:])
		a += n
	}
	b := len(text)
	for ; last > 0 && b > a; last-- {
		_, n := utf8.DecodeLastRuneInString(text[:b])
		b -= n
	}
	return text[:a], text[b:]
}

// canReadResults tells whether the run can page through its own results.
func canReadResults(s run.State) bool {
	_, ok := s.Tool("read_tool_result")
	return ok
}

// cutTo shortens a text to a number of tokens, the middle left out; it may be
// empty.
func cutTo(c TokenCounter, text string, tokens int) string {
	if tokens <= 0 {
		return ""
	}
	n := utf8.RuneCountInString(text)
	if n <= tokens*8 && c.Count(text) <= tokens {
		return text
	}
	lo, hi := 0, min(n, tokens*8)
	best := ""
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if s, _ := tool.Truncate(text, mid); c.Count(s) <= tokens {
			lo, best = mid, s
		} else {
			hi = mid - 1
		}
	}
	return best
}
