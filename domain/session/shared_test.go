package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"refold/domain/session"
)

// Two who fold on from one state, with whatever facts, see nothing of each other,
// and the state stays as it was.
func TestShared_FoldedTwice(t *testing.T) {
	past := []session.Event{created, first, second, session.MessageQueued{MessagePosted: session.MessagePosted{Message: "m3", Run: "r3"}},
		session.MessageQueued{MessagePosted: session.MessagePosted{Message: "m4", Run: "r4"}}, session.MessageDeleted{Message: "m1", Run: "r1"},
		session.RunDiscarded{Run: "r2"}, session.AttachmentAdded{Status: session.AttachmentReady}, session.TitleClaimed{Run: "r1", Owner: "o"}}
	for range 3 { // so that slices have room behind their last element
		past = append(past, first, session.MessageDeleted{Message: "m0"}, session.RunDiscarded{Run: "r0"}, session.AttachmentAdded{})
	}
	fold := func(s session.State, events ...session.Event) session.State {
		for _, e := range events {
			s = session.Evolve(s, e)
		}
		return s
	}
	facts := []session.Event{session.MessageQueued{MessagePosted: session.MessagePosted{Message: "m5", Run: "r5"}}, session.QueuedMessageEdited{Message: "m3", Query: "new"},
		session.QueuedMessageWithdrawn{Message: "m3"}, session.MessagePosted{Message: "m3", Run: "r3"}, session.MessagePosted{Message: "m9", Run: "r9"}}
	for _, name := range session.Codec.Names() {
		data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("%s.v%d.json", name, session.Codec.Schema(name))))
		if err != nil {
			t.Fatal(err)
		}
		e, err := session.Codec.Decode(name, session.Codec.Schema(name), data)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, e)
	}
	base := fold(session.State{}, past...)
	for _, a := range facts {
		for _, b := range facts {
			owner := base.Shared()
			mine := fold(owner, a)
			shared, again := mine.Shared(), mine.Shared()
			x, y := fold(shared, a), fold(again, b)
			own := fold(mine, b, a) // the owner goes on itself
			for what, pair := range map[string][2]session.State{
				"the base":  {base, fold(session.State{}, past...)},
				"one":       {x, fold(fold(session.State{}, past...), a, a)},
				"other":     {y, fold(fold(session.State{}, past...), a, b)},
				"the owner": {own, fold(fold(session.State{}, past...), a, b, a)},
				"shared":    {shared, fold(fold(session.State{}, past...), a)},
			} {
				if !reflect.DeepEqual(pair[0], pair[1]) {
					t.Fatalf("%T, then %T: %s is\n%+v, want\n%+v", a, b, what, pair[0], pair[1])
				}
			}
		}
	}
}
