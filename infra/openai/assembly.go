package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"refold/handlers"
)

var errReplyTooLarge = errors.New("the reply is larger than the limit")

// assembly puts a reply together from its chunks and emits each piece as soon
// as it is certain. After an error of add or end nothing more may be added.
type assembly struct {
	emit func(handlers.ModelDelta) error

	content   strings.Builder
	reasoning strings.Builder
	split     ThinkSplitter
	calls     callList
	finish    string
	model     string
	usage     handlers.ModelUsage

	contentIn, reasoningIn textChannel
	size                   int      // bytes taken in, against MaxReply
	deltas                 bool     // a delta brought something
	whole                  bool     // a whole message came
	choice                 *float64 // the one that counts, once several came at once
}

func newAssembly(emit func(handlers.ModelDelta) error, toolNames []string) *assembly {
	a := &assembly{emit: emit}
	a.calls.known = toolNames
	a.calls.emit = a.emitCall
	return a
}

// add takes one chunk. The error is emit's, or errReplyTooLarge.
func (a *assembly) add(c chunk) error {
	if c.Model != "" {
		a.model = c.Model
	}
	a.count(c.Usage)
	a.count(c.Groq.Usage)
	for _, ch := range c.Choices {
		// One was asked for. Some gateways send several, others number the blocks of
		// the one: only where several come at once the number tells.
		if len(c.Choices) > 1 && a.choice == nil {
			first := slices.MinFunc(c.Choices, func(x, y choice) int { return cmp.Compare(x.Index, y.Index) }).Index
			a.choice = &first
		}
		if a.choice != nil && ch.Index != *a.choice {
			continue
		}
		a.count(ch.Usage)
		if ch.Delta != nil {
			if err := a.message(ch.Delta); err != nil {
				return err
			}
			a.deltas = a.deltas || a.size > 0 || len(a.calls.list) > 0
		}
		// After deltas a whole message only repeats them.
		if ch.Message != nil && !a.deltas {
			a.whole = true
			if err := a.message(ch.Message); err != nil {
				return err
			}
		}
		a.finish = stronger(a.finish, finishOf(ch.Finish))
	}
	return nil
}

func (a *assembly) count(u *usage) {
	if u != nil && (u.Prompt > 0 || u.Completion > 0 || u.Total > 0) {
		a.usage = u.tokens()
	}
}

func (a *assembly) message(m *chunkMessage) error {
	if err := a.think(a.reasoningOf(m)); err != nil {
		return err
	}
	if err := a.takeContent(m.Content); err != nil {
		return err
	}
	if err := a.answer(plainText(m.Refusal, 0)); err != nil {
		return err
	}
	fragments := callFragments(m.ToolCalls)
	if len(fragments) == 0 && !blank(m.FunctionCall) {
		fragments = callFragments(json.RawMessage(`[{"index":0,"function":` + string(m.FunctionCall) + `}]`))
	}
	for i, f := range fragments {
		if err := a.grow(len(f.Arguments) + len(f.Name) + f.metaSize); err != nil {
			return err
		}
		if err := a.calls.add(f, i, len(fragments)); err != nil {
			return err
		}
	}
	return nil
}

// reasoningOf reads one of the channels: servers that fill several repeat the
// same text in each.
func (a *assembly) reasoningOf(m *chunkMessage) string {
	for _, raw := range []json.RawMessage{m.ReasoningContent, m.Reasoning, m.ReasoningDetails} {
		if blank(raw) {
			continue
		}
		if raw = bytes.TrimSpace(raw); raw[0] == '"' {
			return a.reasoningIn.decode(raw)
		}
		if text := plainText(raw, 0); text != "" {
			return text
		}
	}
	return ""
}

func (a *assembly) takeContent(raw json.RawMessage) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil
	}
	if raw[0] == '"' {
		return a.answer(a.contentIn.decode(raw))
	}
	for _, p := range parts(raw) {
		if err := a.think(plainText(p.Thinking, 0)); err != nil {
			return err
		}
		if err := a.answer(plainText(p.Text, 0) + plainText(p.Refusal, 0)); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) grow(n int) error {
	if a.size += n; a.size > MaxReply {
		return errReplyTooLarge
	}
	return nil
}

func (a *assembly) think(text string) error {
	if text == "" {
		return nil
	}
	if err := a.grow(len(text)); err != nil {
		return err
	}
	return a.emitText(&a.reasoning, text, true)
}

func (a *assembly) answer(text string) error {
	if text == "" {
		return nil
	}
	if err := a.grow(len(text)); err != nil {
		return err
	}
	return a.emitPieces(a.split.Write(text))
}

func (a *assembly) emitPieces(list []Piece) error {
	for _, p := range list {
		into := &a.content
		if p.Thinking {
			into = &a.reasoning
		}
		if err := a.emitText(into, p.Text, p.Thinking); err != nil {
			return err
		}
	}
	return nil
}

// emitText emits text and records exactly what it emitted. A blank start is
// neither.
func (a *assembly) emitText(into *strings.Builder, text string, thinking bool) error {
	if into.Len() == 0 {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if text == "" {
		return nil
	}
	into.WriteString(text)
	if thinking {
		return a.emit(handlers.ModelDelta{Reasoning: text})
	}
	return a.emit(handlers.ModelDelta{Content: text})
}

func (a *assembly) emitCall(d handlers.ModelCallDelta) error {
	return a.emit(handlers.ModelDelta{Call: &d})
}

// flush emits the text that was held back.
func (a *assembly) flush() error { return a.emitPieces(a.split.Flush()) }

// end emits the rest and gives the whole reply.
func (a *assembly) end() (handlers.ModelReply, error) {
	if err := a.flush(); err != nil {
		return a.partial(), err
	}
	calls, err := a.calls.end()
	if err != nil {
		return a.partial(), err
	}
	r := a.partial()
	r.Calls = calls
	if r.Finish == "" {
		r.Finish = handlers.FinishStop
		if len(calls) > 0 {
			r.Finish = handlers.FinishToolCalls
		}
	}
	return r, nil
}

// partial is the reply so far, without calls: those of a stream that broke off
// must never run.
func (a *assembly) partial() handlers.ModelReply {
	return handlers.ModelReply{
		Content: a.content.String(), Reasoning: a.reasoning.String(),
		Finish: a.finish, Model: a.model, Usage: a.usage,
	}
}
