// Package scenario says what a decider must do in three words: Given facts,
// When a command comes, Then these facts follow. Whole values are compared and
// differences shown line by line. Only tests import it. Start reading at Given.
package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"refold/domain/run"
	"refold/domain/session"
)

// Decider is an aggregate under test.
type Decider[S, C, E any] struct {
	Decide func(S, C) ([]E, error)
	Evolve func(S, E) S
	Due    func(S, run.Moment) []run.Effect // nil if the aggregate owes nothing
}

// Run is the aggregate of a run.
var Run = Decider[run.State, run.Command, run.Event]{Decide: run.Decide, Evolve: run.Evolve, Due: run.Due}

// Session is the aggregate of a session.
var Session = Decider[session.State, session.Command, session.Event]{Decide: session.Decide, Evolve: session.Evolve}

// Case is one story. Its methods fail the test and give the case back.
type Case[S, C, E any] struct {
	t       testing.TB
	decider Decider[S, C, E]
	state   S
	facts   []E
	got     []E
	err     error
}

// RunCase is a story of a run.
type RunCase = Case[run.State, run.Command, run.Event]

// Given begins a story of a run with what has happened.
func Given(t testing.TB, facts ...run.Event) *RunCase { return Run.Given(t, facts...) }

// Given begins a story with what has happened.
func (d Decider[S, C, E]) Given(t testing.TB, facts ...E) *Case[S, C, E] {
	c := &Case[S, C, E]{t: t, decider: d}
	return c.And(facts...)
}

// And adds facts that happened without a command of this story.
func (c *Case[S, C, E]) And(facts ...E) *Case[S, C, E] {
	for _, e := range facts {
		c.state = c.decider.Evolve(c.state, e)
	}
	c.facts = append(c.facts, facts...)
	return c
}

// When decides commands one after another and folds what follows. The story
// goes on from there; a refusal ends the list.
func (c *Case[S, C, E]) When(commands ...C) *Case[S, C, E] {
	c.t.Helper()
	c.got, c.err = nil, nil
	for _, cmd := range commands {
		events, err := c.decider.Decide(c.state, cmd)
		if err != nil {
			c.err = err
			return c
		}
		c.And(events...)
		c.got = append(c.got, events...)
	}
	return c
}

// Then says exactly which facts the last When led to.
func (c *Case[S, C, E]) Then(want ...E) *Case[S, C, E] {
	c.t.Helper()
	if c.err != nil {
		c.t.Fatalf("refused: %v", c.err)
	}
	if d := Diff(lines(want), lines(c.got)); d != "" {
		c.t.Fatalf("other facts than wanted (- wanted, + got):\n%s", d)
	}
	return c
}

// Kinds says which types of facts the last When led to, in order.
func (c *Case[S, C, E]) Kinds(want ...string) *Case[S, C, E] {
	c.t.Helper()
	if c.err != nil {
		c.t.Fatalf("refused: %v", c.err)
	}
	var got []string
	for _, e := range c.got {
		got = append(got, reflect.TypeOf(e).Name())
	}
	if d := Diff(want, got); d != "" {
		c.t.Fatalf("other facts than wanted (- wanted, + got):\n%s\nin full:\n%s", d, Text(c.got))
	}
	return c
}

// Refused says with which error the last When was refused.
func (c *Case[S, C, E]) Refused(want error) *Case[S, C, E] {
	c.t.Helper()
	if c.err == nil {
		c.t.Fatalf("not refused; facts:\n%s", Text(c.got))
	}
	if !errors.Is(c.err, want) {
		c.t.Fatalf("refused with %v, want %v", c.err, want)
	}
	return c
}

// Due says what is owed now.
func (c *Case[S, C, E]) Due(m run.Moment, want ...run.Effect) *Case[S, C, E] {
	c.t.Helper()
	if d := Diff(effects(want), effects(c.decider.Due(c.state, m))); d != "" {
		c.t.Fatalf("other work is due at %s (- wanted, + got):\n%s", m.Now.Format(time.RFC3339Nano), d)
	}
	return c
}

// State is what the story has come to.
func (c *Case[S, C, E]) State() S { return c.state }

// Got are the facts of the last When.
func (c *Case[S, C, E]) Got() []E { return c.got }

// Err is the refusal of the last When, nil if there was none.
func (c *Case[S, C, E]) Err() error { return c.err }

// Facts are all facts of the story.
func (c *Case[S, C, E]) Facts() []E { return c.facts }

// Last gives the newest fact of a type.
func Last[T, S, C, E any](c *Case[S, C, E]) T {
	c.t.Helper()
	for i := len(c.facts) - 1; i >= 0; i-- {
		if e, ok := any(c.facts[i]).(T); ok {
			return e
		}
	}
	var none T
	c.t.Fatalf("no %T in the story:\n%s", none, Text(c.facts))
	return none
}

// All gives the facts of a type, in order.
func All[T, E any](facts []E) []T {
	var out []T
	for _, e := range facts {
		if t, ok := any(e).(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func effects(in []run.Effect) []string {
	var out []string
	for _, e := range in {
		out = append(out, fmt.Sprintf("%T%+v", e, e))
	}
	return out
}
