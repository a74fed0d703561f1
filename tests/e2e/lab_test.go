package e2e

import (
	"path/filepath"
	"testing"

	"refold/tests/scripted"
)

// lab is a server under test with its model.
type lab struct {
	client
	model *scripted.Server
	p     *process
	s     settings
}

// newLab starts a server with a scripted model; change adjusts the settings.
func newLab(t testing.TB, change func(*settings), steps ...scripted.Step) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{model: scripted.New(t, steps...)}
	l.s = settings{Data: filepath.Join(dir, "data"), Ledger: filepath.Join(dir, "ledger"), ModelURL: l.model.URL}
	if change != nil {
		change(&l.s)
	}
	l.up(t)
	return l
}

// up starts the server again on the same record.
func (l *lab) up(t testing.TB) {
	t.Helper()
	l.p = start(t, l.s)
	l.client = l.p.client()
}

// words are the text deltas of a reply.
func words(list ...string) []scripted.Delta {
	out := make([]scripted.Delta, len(list))
	for i, w := range list {
		out[i] = scripted.Text(w)
	}
	return out
}

// say is a step that answers in words.
func say(list ...string) scripted.Step { return scripted.Say(words(list...)...) }

// call is a tool call of a reply.
func call(id, name, args string) scripted.Delta {
	return scripted.Calls(scripted.Call{ID: id, Name: name, Args: args})
}

// held is a step that says some words, waits for the gate, and says the others.
func held(gate chan struct{}, before, after []string) scripted.Step {
	return scripted.Say(append(append(words(before...), scripted.Gate(gate)), words(after...)...)...)
}

func isAnswer(text string) func(frame) bool {
	return func(f frame) bool { return f.Type == "answer" && f.Content == text }
}

func isType(kind string) func(frame) bool {
	return func(f frame) bool { return f.Type == kind }
}
