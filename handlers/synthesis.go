package handlers

import (
	"refold/domain/run"
)

// synthesis builds the request for an answer from what tools have returned so
// far. The newest results are whole as long as they fit, then come previews and
// markers; results that a summary stands for are in the summary.
func (p *prompt) synthesis(s run.State) (fitted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(s)
	sc := p.scale(s)
	memory := p.memory(s)
	_, turn := p.uncovered(memory)
	background := p.background(memory, 0)
	ask := one(p.counter, ModelMessage{Role: RoleUser, Content: synthesisInstruction + s.Asked()})
	question := p.question
	var out fitted
	sum := p.head.total + background.total + question.total + ask.total + tailTokens
	out.full = sc.size(sum + totals(turn))
	limit, hard := sc.room(p.limit(s)), sc.room(p.window)
	if sum > limit { // the question stands at the end as well
		sum -= question.total
		question = unit{}
	}
	if sum > limit && background.total > 0 {
		sum -= background.total
		background = p.backgroundWithin(memory, 0, limit-sum)
		sum += background.total
	}
	var results []ModelMessage // the newest first
	for i := len(turn) - 1; i >= 0; i-- {
		for k := len(turn[i].messages) - 1; k >= 0; k-- {
			if turn[i].messages[k].Role != RoleTool {
				continue
			}
			m := handedOver(turn[i].messages[k])
			n := TokensOf(p.counter, m)
			if sum+n > limit {
				short := p.preview(turn[i].source[k], max(0, limit-sum-20)).message
				m = handedOver(short)
				n = TokensOf(p.counter, m)
			}
			if sum+n > limit {
				out.dropped++
				continue
			}
			results = append(results, m)
			sum += n
		}
	}
	out.counted, out.size = sum, sc.size(sum)
	if sum > hard {
		return out, tooLong(out.size, p.window)
	}
	for _, u := range []unit{p.head, background, question} {
		out.messages = append(out.messages, u.messages...)
	}
	for i := len(results) - 1; i >= 0; i-- {
		out.messages = append(out.messages, results[i])
	}
	out.messages = sanitize(append(out.messages, ask.messages...))
	return out, nil
}

// handedOver is a result as a message of text, for a request without tools.
func handedOver(m ModelMessage) ModelMessage {
	return ModelMessage{Role: RoleUser, Content: "Tool " + m.Name + " returned:\n" + m.Content}
}
