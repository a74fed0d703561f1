package handlers

import (
	"math"

	"refold/domain/run"
	"refold/domain/tool"
)

// What a message costs beside its text, in tokens.
const (
	messageTokens = 3    // of every message
	tailTokens    = 3    // of the reply's beginning
	callTokens    = 4    // of every tool call, beside its name and arguments
	imageTokens   = 1000 // of an image, whatever its size
)

// TokensOf counts a message as a request carries it.
func TokensOf(c TokenCounter, m ModelMessage) int {
	n := messageTokens + c.Count(m.Content) + c.Count(m.Reasoning) + imageTokens*len(m.Images)
	for _, call := range m.Calls {
		n += callTokens + c.Count(call.Name) + c.Count(call.Arguments)
	}
	return n
}

// tokensOfTools counts the definitions that a request offers.
func tokensOfTools(c TokenCounter, defs []tool.Definition) int {
	n := 0
	for _, d := range defs {
		n += 2*callTokens + c.Count(d.Name) + c.Count(d.Description) + c.Count(string(d.Schema))
	}
	return n
}

// roughly counts without a vocabulary: four bytes make a token, or one
// character beyond ASCII.
type roughly struct{}

func (roughly) Count(text string) int {
	ascii, others := 0, 0
	for _, r := range text {
		if r < 128 {
			ascii++
		} else {
			others++
		}
	}
	return (ascii+3)/4 + others
}

// scale corrects our count by what the provider has counted in an earlier
// request, so that an estimate that is wrong by a factor, or by an overhead that
// we don't see, is so once only.
type scale struct {
	add int
	mul float64
}

const (
	minSample   = 500 // tokens of a request from which a factor can be learnt
	minFactor   = 0.5 // less is not believed: the provider leaves something out
	maxFactor   = 8
	maxOverhead = 4000 // tokens of overhead that are believed
)

func scaleOf(s run.Sizing) scale {
	out := scale{mul: 1}
	if s.Counted <= 0 || s.Prompt <= 0 || float64(s.Prompt) < minFactor*float64(s.Counted) {
		return out
	}
	out.add = min(s.Prompt-s.Counted, maxOverhead)
	if s.Counted >= minSample {
		out.mul = min(float64(s.Prompt)/float64(s.Counted), maxFactor)
	} else {
		out.add = max(0, out.add)
	}
	return out
}

// size is a whole request's size in the provider's tokens: the count plus the
// overhead, or times the factor, whichever is more.
func (s scale) size(counted int) int {
	return max(counted+s.add, s.cost(counted))
}

// cost is the size of a part of a request.
func (s scale) cost(counted int) int { return int(math.Ceil(float64(counted) * s.mul)) }

// room is the largest count whose size is at most a number of tokens; it may be
// negative.
func (s scale) room(size int) int {
	n := min(size-s.add, int(float64(size)/s.mul))
	for n > 0 && s.size(n) > size {
		n--
	}
	return n
}
