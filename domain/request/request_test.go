package request_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"refold/domain/request"
	"refold/tests/scenario"
)

var (
	t0       = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	reserved = request.RequestReserved{Reservation: "r1", Fingerprint: "f", Owner: "p", At: t0}
	answered = request.RequestAnswered{Reservation: "r1", Status: 201, Body: "{}", At: t0}
	released = request.RequestReleased{Reservation: "r1", Status: 409, At: t0}
	decider  = scenario.Decider[request.State, request.Command, request.Event]{Decide: request.Decide, Evolve: request.Evolve}
)

func reserve(fingerprint string, at time.Time) request.Reserve {
	return request.Reserve{RequestReserved: request.RequestReserved{Reservation: "r2", Fingerprint: fingerprint, Owner: "q", At: at}}
}

func TestReserve(t *testing.T) {
	later := t0.Add(request.Retention - 1)
	decider.Given(t).When(request.Reserve{RequestReserved: reserved}).Then(reserved)
	for _, past := range [][]request.Event{{reserved}, {reserved, answered}} {
		decider.Given(t, past...).When(reserve("f", later)).Then()
		decider.Given(t, past...).When(reserve("g", later)).Refused(request.ErrOther)
		again := reserve("g", t0.Add(request.Retention))
		decider.Given(t, past...).When(again).Then(again.RequestReserved)
	}
	again := reserve("g", t0)
	decider.Given(t, reserved, released).When(again).Then(again.RequestReserved)
}

func TestAnswer_TheFirstCounts(t *testing.T) {
	answer, release := request.Answer{RequestAnswered: answered}, request.Release{RequestReleased: released}
	decider.Given(t, reserved).When(answer).Then(answered)
	decider.Given(t, reserved).When(release).Then(released)
	for _, past := range [][]request.Event{{}, {reserved, answered}, {reserved, released}, {reserved, released, reserve("f", t0).RequestReserved}} {
		decider.Given(t, past...).When(answer).Then()
		decider.Given(t, past...).When(release).Then()
	}
	s := decider.Given(t, reserved, answered, request.RequestAnswered{Reservation: "r1", Status: 500}, request.RequestReleased{Reservation: "r9"}).State()
	if s.Answer.Status != 201 {
		t.Fatalf("%+v", s)
	}
}

func TestCheckKey(t *testing.T) {
	for _, good := range []string{"a", "a key with blanks!", strings.Repeat("k", 255)} {
		if err := request.CheckKey(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("k", 256), strings.Repeat("k", 10_000), "ü", "a\tb", "a\x7f"} {
		if err := request.CheckKey(bad); !errors.Is(err, request.ErrBadKey) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestIDs(t *testing.T) {
	if request.StreamID("ab", "c") == request.StreamID("a", "bc") || strings.Contains(request.StreamID("p", "secret"), "secret") {
		t.Error("stream ids")
	}
	a, b := request.DerivedID("r1", "run"), request.DerivedID("r1", "message")
	if len(a) != 36 || a == b || a != request.DerivedID("r1", "run") || a == request.DerivedID("r2", "run") || a[14] != '8' {
		t.Errorf("%s %s", a, b)
	}
}

func TestWire(t *testing.T) { scenario.Fixtures(t, request.Codec) }
