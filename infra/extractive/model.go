package extractive

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"refold/handlers"
)

// Name is the model's name.
const Name = "extractive"

// maxRounds is how many replies with calls one question gets; after them it
// answers with what there is.
const maxRounds = 5

// Model is the built-in model. The zero value is ready. Safe for concurrent use.
type Model struct{}

var _ handlers.Model = Model{}

// Name implements handlers.Model.
func (Model) Name() string { return Name }

// Chat implements handlers.Model. It fails only when ctx ends or emit fails.
func (Model) Chat(ctx context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	r := reply{ctx: ctx, emit: emit, out: handlers.ModelReply{Model: Name, Finish: handlers.FinishStop}}
	t := readTurn(req)
	if calls := t.next(); len(calls) > 0 && t.rounds < maxRounds {
		r.think(t.plan(calls))
		r.call(calls, t.rounds)
	} else {
		r.think(t.say("Choosing the sentences that fit the question.", "挑选与问题相符的句子。"))
		r.write(t.answer())
	}
	return r.out, r.err
}

// reply emits a reply in small pieces and records exactly what it emitted.
type reply struct {
	ctx  context.Context
	emit func(handlers.ModelDelta) error
	out  handlers.ModelReply
	err  error
}

func (r *reply) send(d handlers.ModelDelta) bool {
	if r.err == nil && r.ctx.Err() != nil {
		r.err = fmt.Errorf("write an extractive reply: %w", r.ctx.Err())
	}
	if r.err == nil {
		r.err = r.emit(d)
	}
	return r.err == nil
}

func (r *reply) think(line string) {
	if r.send(handlers.ModelDelta{Reasoning: line}) {
		r.out.Reasoning += line
	}
}

func (r *reply) write(text string) {
	var b strings.Builder
	for _, piece := range clauses(text) {
		if !r.send(handlers.ModelDelta{Content: piece}) {
			break
		}
		b.WriteString(piece)
	}
	r.out.Content = b.String()
}

func (r *reply) call(calls []request, round int) {
	for i, c := range calls {
		id := fmt.Sprintf("extractive_%d_%d", round+1, i+1)
		if !r.send(handlers.ModelDelta{Call: &handlers.ModelCallDelta{Index: i, ID: id, Name: c.tool, Text: c.arguments}}) {
			return
		}
		r.out.Calls = append(r.out.Calls, handlers.ModelCall{ID: id, Name: c.tool, Arguments: c.arguments})
	}
	r.out.Finish = handlers.FinishToolCalls
}

// clauses cuts text into pieces of a word or a clause.
func clauses(text string) []string {
	var list []string
	var b strings.Builder
	n := 0
	for _, c := range text {
		b.WriteRune(c)
		n++
		if unicode.IsSpace(c) || strings.ContainsRune("。，；：！？、", c) || n == 16 {
			list = append(list, b.String())
			b.Reset()
			n = 0
		}
	}
	if n > 0 {
		list = append(list, b.String())
	}
	return list
}
