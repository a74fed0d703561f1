package handlers

import (
	"fmt"
	"slices"
	"sync"

	"refold/domain/run"
	"refold/domain/tool"
)

// Shares of the window, in hundredths. Above summaryAt (a rule of domain/run,
// State.MemoryDue) older messages are summed up; above trimAt the oldest are left
// out of a request; a summary leaves keepShare of them as they are.
const (
	trimAt       = 80
	keepShare    = 30
	keepReserve  = 500 // tokens kept free beside what is kept
	worthShare   = 10  // what a summary stands for must be worth that much
	sourceShare  = 50  // of the window that the request for a summary may take
	summaryShare = 12  // of the window that a summary may take
	maxSummary   = 2000
)

// prompt builds the requests of one run. It remembers what each message counts,
// so that a round costs what is new in it. Safe for concurrent use.
type prompt struct {
	counter TokenCounter

	mu       sync.Mutex
	past     past
	order    order
	head     unit // the system prompt
	question unit
	tools    int // tokens of the definitions
	canRead  bool
	window   int
	turn     []unit // of the run, in order
	shorts   map[string]short
	backs    map[backKey]unit
	memo     memo
}

// memo is the request that was built last: what is measured before a claim is
// sent after it.
type memo struct {
	key  memoKey
	fit  fitted
	err  error
	good bool
}

type memoKey struct {
	units, memories, window int
	sized                   run.Sizing
	due                     bool
}

type backKey struct {
	text    string
	stands  int
	dropped int
}

func newPrompt(c TokenCounter, s run.State, p past) *prompt {
	out := &prompt{counter: c, past: p, order: newOrder(s), canRead: canReadResults(s)}
	if s.Start.Mode != run.ModeQuick {
		out.tools = tokensOfTools(c, s.Start.Tools)
	}
	out.head = one(c, ModelMessage{Role: RoleSystem, Content: s.Start.Agent.SystemPrompt + protocol(s)})
	out.question = one(c, ModelMessage{Role: RoleUser, Content: userTurn(s), Images: s.Images()})
	return out
}

func one(c TokenCounter, m ModelMessage) unit {
	n := TokensOf(c, m)
	return unit{messages: []ModelMessage{m}, tokens: []int{n}, total: n}
}

// fitted is a request that fits the window.
type fitted struct {
	messages []ModelMessage
	full     int // estimated size before anything was left out
	size     int // estimated size
	counted  int // the same as counted, before correction
	dropped  int // messages left out for lack of space
	cover    cover
}

// cover is what a summary could stand for now.
type cover struct {
	from, to run.Place
	messages int
}

// round builds the request of a round from a state as the call finds it. The
// error is for a question that can't fit.
func (p *prompt) round(s run.State) (fitted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.follow(s)
	key := memoKey{len(p.turn), len(s.Memories), p.window, s.Sized, s.MemoryDue(p.window)}
	if changed || !p.memo.good || p.memo.key != key {
		fit, err := p.build(s)
		p.memo = memo{key, fit, err, true}
	}
	fit := p.memo.fit
	fit.messages = slices.Clone(fit.messages) // callers put images in
	return fit, p.memo.err
}

func (p *prompt) build(s run.State) (fitted, error) {
	sc := p.scale(s)
	memory := p.memory(s)
	history, turn := p.uncovered(memory)
	turn = p.results(turn, sc)
	fixed := p.tools + p.head.total + p.question.total + tailTokens
	background := p.background(memory, 0)
	out := fitted{}
	sum := fixed + background.total + totals(history) + totals(turn)
	out.full = sc.size(sum)
	if s.MemoryDue(out.full) {
		out.cover = p.coverable(sc, memory, history, turn, fixed)
	}

	// The oldest parts go first. What the model must answer to stays: the newest
	// part, and the newest words of a person.
	limit := sc.room(p.limit(s))
	hard := sc.room(p.window)
	keep := lastUser(turn)
	drop := func(units []unit, kept func(int) bool) []unit {
		left := units[:0:0]
		for i, u := range units {
			if sum > limit && !kept(i) {
				if out.dropped == 0 {
					b := p.background(memory, 1)
					sum += b.total - background.total
				}
				sum -= u.total
				out.dropped += len(u.messages)
				continue
			}
			left = append(left, u)
		}
		return left
	}
	history = drop(history, func(int) bool { return false })
	last := len(turn) - 1
	turn = drop(turn, func(i int) bool { return i == last || i == keep })
	if out.dropped > 0 {
		b := p.background(memory, out.dropped)
		sum += b.total - p.background(memory, 1).total
		background = b
	}
	if sum > limit { // what is left is too long by itself
		turn = p.squeeze(turn, sum-limit, &sum)
	}
	if sum > hard && background.total > 0 {
		sum -= background.total
		background = p.backgroundWithin(memory, out.dropped, hard-sum)
		sum += background.total
	}
	if n := len(turn); sum > hard && n > 0 && n-1 != lastUser(turn) {
		// Even its newest step alone is too long. The question matters more.
		sum -= turn[n-1].total
		out.dropped += len(turn[n-1].messages)
		turn = turn[:n-1]
	}
	out.counted, out.size = sum, sc.size(sum)
	if sum > hard {
		return out, tooLong(out.size, p.window)
	}
	out.messages = append(out.messages, p.head.messages...)
	out.messages = append(out.messages, background.messages...)
	for _, u := range history {
		out.messages = append(out.messages, u.messages...)
	}
	out.messages = append(out.messages, p.question.messages...)
	for _, u := range turn {
		out.messages = append(out.messages, u.messages...)
	}
	out.messages = sanitize(out.messages)
	return out, nil
}

func tooLong(size, window int) error {
	return &ModelError{Code: "too_long", Message: fmt.Sprintf(
		"the question with the agent's own instructions takes about %d tokens, and the model's window has %d; shorten it, put the text into a file, or use a model with a larger window", size, window)}
}

// follow takes in what is new in the run. The newest parts are looked at again:
// they may have come from a plan that lost its race.
// It tells whether anything was.
func (p *prompt) follow(s run.State) (changed bool) {
	p.window = s.Window()
	keep := max(0, len(p.turn)-3)
	after := 0
	if keep > 0 {
		after = p.turn[keep-1].last.Step
	}
	old := p.turn[keep:]
	p.turn = p.turn[:keep:keep]
	defer func() { changed = changed || len(p.turn) != keep+len(old) }()
	for i, part := range s.Parts(after) {
		if i < len(old) && old[i].last.Step == part.To && old[i].says(part.Messages) {
			p.turn = append(p.turn, old[i])
			continue
		}
		p.turn = append(p.turn, newUnit(p.counter, s.Start.Run, part))
		changed = true
	}
	return changed
}

func (p *prompt) scale(s run.State) scale {
	if s.Sized.Prompt > 0 {
		return scaleOf(s.Sized)
	}
	return scaleOf(p.past.sized)
}

// limit is what a request may take, so that the reply has room.
func (p *prompt) limit(s run.State) int {
	n := p.window * trimAt / 100
	if reply := s.Start.Agent.MaxTokens; reply > 0 && reply < p.window/2 {
		n = min(n, p.window-reply)
	}
	return n
}

// memory is the summary in use, the run's own or one of its past.
func (p *prompt) memory(s run.State) *run.MemoryConsolidated {
	if m, ok := s.Memory(); ok {
		return &m
	}
	return p.past.memory
}

// uncovered are the parts that a summary does not stand for, and the newest words
// of a person in any case.
func (p *prompt) uncovered(m *run.MemoryConsolidated) (history, turn []unit) {
	if m == nil {
		return p.past.units, p.turn
	}
	history, turn = p.after(p.past.units, m.To), p.after(p.turn, m.To)
	for i := len(p.turn) - 1; i >= 0; i-- {
		if p.turn[i].source[0].Person {
			if i < len(p.turn)-len(turn) {
				turn = append([]unit{p.turn[i]}, turn...)
			}
			break
		}
	}
	return history, turn
}

func (p *prompt) after(units []unit, place run.Place) []unit {
	i := 0
	for i < len(units) && !p.order.after(units[i].last, place) {
		i++
	}
	return units[i:]
}

// coverable says what a summary could stand for: everything but the newest
// parts that fit into their share of the window, and the very newest.
func (p *prompt) coverable(sc scale, memory *run.MemoryConsolidated, history, turn []unit, fixed int) cover {
	all := slices.Concat(history, turn)
	left := sc.room(p.window*keepShare/100) - fixed - keepReserve
	n := len(all)
	for n > 0 && (n == len(all) || all[n-1].total <= left) {
		n--
		left -= all[n].total
	}
	source, room := 0, sc.room(p.window*sourceShare/100)
	var out cover
	worth := 0
	for i, u := range all[:n] {
		if source += sourceTokens(u); source > room && i > 0 {
			break
		}
		if i == 0 {
			out.from = u.first
		}
		out.to = u.last
		out.messages += len(u.messages)
		worth += u.total
	}
	if sc.cost(worth) < p.window*worthShare/100 || out.messages < 2 {
		return cover{}
	}
	if memory != nil {
		out.from = memory.From
		out.messages += memory.Messages
	}
	return out
}

// squeeze shortens the tool results of what must stay by a number of tokens,
// the longest first.
func (p *prompt) squeeze(turn []unit, over int, sum *int) []unit {
	turn = slices.Clone(turn)
	for i := range turn {
		u := &turn[i]
		u.messages, u.tokens = slices.Clone(u.messages), slices.Clone(u.tokens)
		for over > 0 {
			k := longest(*u)
			if k < 0 {
				break
			}
			s := p.preview(u.source[k], max(0, u.tokens[k]-over-messageTokens))
			if s.tokens >= u.tokens[k] {
				s = p.preview(u.source[k], 0)
			}
			if s.tokens >= u.tokens[k] {
				break
			}
			saved := u.tokens[k] - s.tokens
			u.messages[k], u.tokens[k], u.total = s.message, s.tokens, u.total-saved
			over -= saved
			*sum -= saved
		}
	}
	return turn
}

// longest is the index of the longest tool result of a unit, -1 if none is.
func longest(u unit) int {
	at := -1
	for k, m := range u.messages {
		if m.Role == RoleTool && (at < 0 || u.tokens[k] > u.tokens[at]) {
			at = k
		}
	}
	return at
}

func totals(units []unit) int {
	n := 0
	for _, u := range units {
		n += u.total
	}
	return n
}

// lastUser is the index of the newest message that a person, or the engine,
// has sent within the turn; -1 if there is none.
func lastUser(units []unit) int {
	for i := len(units) - 1; i >= 0; i-- {
		if len(units[i].messages) == 1 && units[i].messages[0].Role == RoleUser {
			return i
		}
	}
	return -1
}

// background is the message that stands for what is not in the request: the
// summary, and how many messages were left out without one.
func (p *prompt) background(m *run.MemoryConsolidated, dropped int) unit {
	key := backKey{dropped: dropped}
	if m != nil {
		key.text, key.stands = m.Text, m.Messages
	}
	if u, ok := p.backs[key]; ok {
		return u
	}
	if len(p.backs) > 8 || p.backs == nil {
		p.backs = map[backKey]unit{}
	}
	u := p.backgroundOf(m, key.text, dropped)
	p.backs[key] = u
	return u
}

func (p *prompt) backgroundOf(m *run.MemoryConsolidated, text string, dropped int) unit {
	if m == nil && dropped == 0 {
		return unit{}
	}
	var b string
	if m != nil {
		what := "a summary"
		if m.Archive {
			what = "shortened copies"
		}
		b = fmt.Sprintf("Background, not a request: %s of %d earlier messages of this conversation. Use it as knowledge of what was said and done before; the request comes later.\n%s",
			what, m.Messages, tool.Untrusted("earlier messages of this conversation", text, tool.Boundary("memory", text)))
	}
	if dropped > 0 {
		if b != "" {
			b += "\n"
		}
		b += fmt.Sprintf("Background, not a request: %d earlier messages of this conversation are left out here for lack of space.", dropped)
	}
	return one(p.counter, ModelMessage{Role: RoleUser, Content: b})
}

// backgroundWithin is the background with a summary cut to what there is room for.
func (p *prompt) backgroundWithin(m *run.MemoryConsolidated, dropped, room int) unit {
	if m == nil {
		return unit{}
	}
	frame := p.backgroundOf(m, "", dropped).total
	text := cutTo(p.counter, m.Text, room-frame-10)
	if u := p.backgroundOf(m, text, dropped); text != "" && u.total <= room {
		return u
	}
	return unit{}
}
