package session_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/session"
	"refold/tests/scenario"
)

var (
	t0      = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	created = session.SessionCreated{Session: "s1", Title: "T", Description: "D", Principal: "u", At: t0}
	updated = session.SessionUpdated{Title: "T2", Description: "D2", At: t0}
	deleted = session.SessionDeleted{At: t0}
	first   = session.MessagePosted{Message: "m1", Run: "r1", Query: "one", Agent: "a", At: t0}
	second  = session.MessagePosted{Message: "m2", Run: "r2", Query: "two", Agent: "a", At: t0.Add(time.Second)}
)

func given(t *testing.T, facts ...session.Event) *scenario.Case[session.State, session.Command, session.Event] {
	return scenario.Session.Given(t, facts...)
}

func TestCreate(t *testing.T) {
	given(t).When(session.Create{SessionCreated: created}).Then(created)
	given(t, created).When(session.Create{SessionCreated: created}).Refused(session.ErrExists)
	given(t, created, deleted).When(session.Create{SessionCreated: created}).Refused(session.ErrExists)
}

func TestTexts_HaveLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("长", n) }
	ok := session.SessionUpdated{Title: long(session.MaxTitle), Description: long(session.MaxDescription)}
	given(t, created).When(session.Update{SessionUpdated: ok}).Then(ok)
	for _, u := range []session.SessionUpdated{{Title: long(session.MaxTitle + 1)}, {Description: long(session.MaxDescription + 1)}} {
		if err := given(t, created).When(session.Update{SessionUpdated: u}).Err(); err == nil {
			t.Fatal("taken")
		}
		c := created
		c.Title, c.Description = u.Title, u.Description
		if err := given(t).When(session.Create{SessionCreated: c}).Err(); err == nil {
			t.Fatal("taken")
		}
	}
}

func TestUpdate(t *testing.T) {
	s := given(t, created).When(session.Update{SessionUpdated: updated}).Then(updated).State()
	if s.Title != "T2" || s.Description != "D2" {
		t.Fatalf("%+v", s)
	}
}

func TestDeleted_NothingIsTaken(t *testing.T) {
	for _, past := range [][]session.Event{{}, {created, deleted}} {
		for _, c := range []session.Command{session.Update{SessionUpdated: updated}, session.Delete{SessionDeleted: deleted}, session.Post{MessagePosted: first}} {
			given(t, past...).When(c).Refused(session.ErrNotFound)
		}
	}
	given(t, created).When(session.Delete{SessionDeleted: deleted}).Then(deleted)
}

func TestPost_OneRunAtATime(t *testing.T) {
	given(t, created).When(session.Post{MessagePosted: first}).Then(first)
	c := given(t, created, first)
	c.When(session.Post{MessagePosted: second}).Refused(session.ErrRunInProgress)
	var r interface{ Error() string } = c.Err()
	if !strings.Contains(r.Error(), "still answering") {
		t.Fatal(r)
	}
	c.When(session.Post{MessagePosted: second, EndedRun: "r0"}).Refused(session.ErrRunInProgress)
	c.When(session.Post{MessagePosted: second, EndedRun: "r1"}).Then(second)
	// Seen the end of the first run, but somebody was faster.
	third := second
	third.Run = "r3"
	c.When(session.Post{MessagePosted: third, EndedRun: "r1"}).Refused(session.ErrRunInProgress)
}

func TestState_Posts(t *testing.T) {
	s := given(t, created, first, second).State()
	if p, place, ok := s.Post("r1"); !ok || place != 0 || p.Message != "m1" {
		t.Fatalf("%+v %d", p, place)
	}
	if _, _, ok := s.Post("r9"); ok || s.LastRun() != "r2" {
		t.Fatal(s.LastRun())
	}
}

func TestEvolve_AnyOrder(t *testing.T) {
	for _, facts := range [][]session.Event{{deleted}, {first}, {updated, created}, {created, created}, {deleted, created, first}, {nil}} {
		given(t, facts...)
	}
	again := created
	again.Title = "another"
	if s := given(t, created, again).State(); s.Title != "T" {
		t.Fatal("created twice")
	}
}

func TestWire(t *testing.T) {
	scenario.Fixtures(t, session.Codec)
	for _, e := range []session.Event{created, updated, deleted, first} {
		if name, _, _, err := session.Codec.Encode(e); err != nil || name != reflect.TypeOf(e).Name() {
			t.Fatalf("%T goes by %q, %v", e, name, err)
		}
	}
	if _, err := session.Codec.Decode("SessionArchived", 1, []byte(`{}`)); !errors.Is(err, event.ErrUnknownType) {
		t.Fatal(err)
	}
	if _, err := session.Codec.Decode("MessagePosted", 2, []byte(`{}`)); !errors.Is(err, event.ErrNewerSchema) {
		t.Fatal(err)
	}
}

// A clock that was set back does not mix a conversation up.
func TestPost_TimeNeverGoesBack(t *testing.T) {
	early := second
	early.At = t0.Add(-time.Hour)
	want := early
	want.At = first.At.Add(2 * time.Microsecond)
	given(t, created, first).When(session.Post{MessagePosted: early, EndedRun: "r1"}).Then(want)
	given(t, created, first, session.MessageQueued{MessagePosted: early}).When(session.TakeQueued{EndedRun: "r1", Now: early.At}).Then(want)
	given(t, created, first).When(session.Replace{Post: session.Post{MessagePosted: early, EndedRun: "r1"}}).
		Then(session.RunDiscarded{Run: "r1", At: early.At}, want)
	given(t, created, first, session.MessagesCleared{}).When(session.Post{MessagePosted: early}).Then(early)
}
