package storetest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"refold/domain/event"
)

func testVersions(t *testing.T, s *suite) {
	st := s.stream("run")
	one, more := events(1), events(4)
	a := s.append(st, event.NoStream(), one...)
	b := s.append(st, event.Exactly(1), more...)
	if a.Version != 1 || b.Version != 5 {
		t.Fatalf("versions %d and %d, want 1 and 5", a.Version, b.Version)
	}
	if a.Position == "" || a.Position >= b.Position {
		t.Fatalf("positions %q and %q must grow", a.Position, b.Position)
	}
	got := s.read(st)
	contiguous(t, got)
	same(t, got, append(one, more...))
	if got[0].Position != a.Position || got[4].Position != b.Position {
		t.Fatalf("read positions %q, %q, appended %q, %q", got[0].Position, got[4].Position, a.Position, b.Position)
	}
	head, err := s.s.Head(t.Context())
	if err != nil || head < b.Position {
		t.Fatalf("head %q after append at %q: %v", head, b.Position, err)
	}
	if got := s.read(s.stream("run")); len(got) != 0 {
		t.Fatalf("an unknown stream has %d events", len(got))
	}
}

func testExpect(t *testing.T, s *suite) {
	st := s.stream("run")
	s.refused(event.ErrConflict, st, event.Exactly(1), events(1)...)
	s.append(st, event.Exactly(0), events(2)...)
	for _, e := range []event.Expect{event.NoStream(), event.Exactly(1), event.Exactly(3)} {
		s.refused(event.ErrConflict, st, e, events(1)...)
	}
	s.append(st, event.Exactly(2), events(1)...)
	contiguous(t, s.read(st))
}

func testAllOrNothing(t *testing.T, s *suite) {
	st, other := s.stream("run"), s.stream("run")
	taken := events(1)
	s.append(other, event.NoStream(), taken...)
	fresh := events(2)
	s.refused(event.ErrInvalid, st, event.NoStream(), fresh[0], taken[0], fresh[1])
	if got := s.read(st); len(got) != 0 {
		t.Fatalf("%d events of a refused append were written", len(got))
	}
	s.append(st, event.NoStream(), fresh...)
	more := events(2)
	s.refused(event.ErrInvalid, st, event.Exactly(2), more[0], taken[0])
	s.append(st, event.Exactly(2), more...)
	contiguous(t, s.read(st))
}

func testAgain(t *testing.T, s *suite) {
	st := s.stream("run")
	first, second := events(3), events(2)
	a := s.append(st, event.NoStream(), first...)
	b := s.append(st, event.Exactly(3), second...)
	for _, expect := range []event.Expect{event.NoStream(), event.Exactly(3), event.Exactly(5), event.Exactly(99)} {
		if got := s.append(st, expect, first...); got != a {
			t.Fatalf("again: %+v, the first answer was %+v", got, a)
		}
		if got := s.append(st, expect, second...); got != b {
			t.Fatalf("again: %+v, the first answer was %+v", got, b)
		}
	}
	same(t, s.read(st), append(first, second...))
	delta := s.stream(event.CategoryDelta)
	c := s.append(delta, event.NoStream(), events(1)...)
	text := events(2)
	c = s.append(delta, event.Exactly(c.Version), text...)
	if got := s.append(delta, event.Exactly(1), text...); got != c {
		t.Fatalf("again: %+v, the first answer was %+v", got, c)
	}
}

func testAgainConcurrent(t *testing.T, s *suite) {
	st := s.stream("run")
	batch := events(3)
	var wg sync.WaitGroup
	answers := make([]event.Appended, 16)
	errs := make([]error, len(answers))
	for i := range answers {
		wg.Go(func() { answers[i], errs[i] = s.s.Append(t.Context(), st, event.NoStream(), batch...) })
	}
	wg.Wait()
	for i := range answers {
		if errs[i] != nil || answers[i] != answers[0] {
			t.Fatalf("answer %d is %+v (%v), the first is %+v", i, answers[i], errs[i], answers[0])
		}
	}
	same(t, s.read(st), batch)
}

func testUniqueIDs(t *testing.T, s *suite) {
	st, other := s.stream("run"), s.stream("session")
	e := events(3)
	s.append(st, event.NoStream(), e[0], e[1])
	s.refused(event.ErrInvalid, other, event.NoStream(), e[0])
	s.refused(event.ErrInvalid, other, event.NoStream(), e[0], e[1])
	s.refused(event.ErrInvalid, st, event.Exactly(2), e[1], e[2])
	s.refused(event.ErrInvalid, st, event.Exactly(2), e[2], e[1])
	s.refused(event.ErrInvalid, st, event.Exactly(2), e[1], e[0])
	s.refused(event.ErrInvalid, st, event.Exactly(9), e[1], e[2])
	s.append(st, event.Exactly(2), e[2])
	same(t, s.read(st), e)
	if got := s.read(other); len(got) != 0 {
		t.Fatalf("%d events in the other stream", len(got))
	}
	s.append(other, event.NoStream(), events(1)...)
}

func testEnvelope(t *testing.T, s *suite) {
	st := event.Stream{Tenant: s.tenant, Category: "run", ID: unique("sp ace/Ünï %?#'\"")}
	metas := []event.Metadata{
		{},
		{Correlation: "session-1", Causation: "event-1", Command: "PostMessage", Actor: "user:1", Trace: "0af7651916cd43dd8448eb211c80319c"},
		{Actor: `quo"ted \ back "," :`, Trace: "line\nbreak <&> ü"},
		{Command: `a":"b`, Trace: "x"},
		{Correlation: "only"},
	}
	var want []event.New
	for i, m := range metas {
		e := events(1)[0]
		e.Meta, e.Type, e.Schema = m, "Type"+string(rune('A'+i)), i+1
		want = append(want, e)
	}
	want[0].Time = time.Date(2024, 2, 29, 23, 59, 59, 999999000, time.FixedZone("x", 3600))
	want[4].Time = time.Date(1969, 12, 31, 0, 0, 0, 1000, time.UTC)
	s.append(st, event.NoStream(), want...)
	scanned := s.scan("", s.mine(), 0)
	for name, got := range map[string][]event.Raw{"read": s.read(st), "scan": scanned} {
		same(t, got, want)
		for i, r := range got {
			if !r.Time.Equal(want[i].Time) || r.Time.Location() != time.UTC {
				t.Errorf("%s: time %v, want %v in UTC", name, r.Time, want[i].Time)
			}
			r.Time, want[i].Time = time.Time{}, want[i].Time.UTC()
			w := want[i]
			w.Time = time.Time{}
			if !reflect.DeepEqual(r.New, w) || r.Stream != st {
				t.Errorf("%s: got %+v in %v\nwant %+v in %v", name, r.New, r.Stream, w, st)
			}
		}
	}
}

func testRace(t *testing.T, s *suite) {
	for round := range 100 {
		st := s.stream("run")
		s.append(st, event.NoStream(), events(1)...)
		var wg sync.WaitGroup
		start := make(chan struct{})
		errs := make([]error, 2)
		for i := range errs {
			e := events(1)
			wg.Go(func() {
				<-start
				_, errs[i] = s.s.Append(t.Context(), st, event.Exactly(1), e...)
			})
		}
		close(start)
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, event.ErrConflict) {
				t.Fatalf("round %d: the loser got %v", round, err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d writers won", round, won)
		}
		if got := s.read(st); len(got) != 2 {
			t.Fatalf("round %d: %d events", round, len(got))
		}
	}
}

// testReload is two racers that load, decide and append: approve is not allowed
// after cancel. Who loses loads again.
func testReload(t *testing.T, s *suite) {
	for round := range 100 {
		st := s.stream("run")
		s.append(st, event.NoStream(), events(5)...)
		accepted := func(kind string) (bool, error) {
			e := events(1)
			e[0].Type = kind
			for range 10 {
				got, err := s.s.Read(t.Context(), st, 0, 0)
				if err != nil {
					return false, err
				}
				for _, r := range got {
					if r.Type == "Cancelled" && kind == "Approved" {
						return false, nil
					}
				}
				_, err = s.s.Append(t.Context(), st, event.Exactly(int64(len(got))), e...)
				if !errors.Is(err, event.ErrConflict) {
					return err == nil, err
				}
			}
			return false, errors.New("ten conflicts between two writers")
		}
		var wg sync.WaitGroup
		oks, errs := make([]bool, 2), make([]error, 2)
		for i, kind := range []string{"Cancelled", "Approved"} {
			wg.Go(func() { oks[i], errs[i] = accepted(kind) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		got, want := s.read(st), 5
		for _, ok := range oks {
			if ok {
				want++
			}
		}
		contiguous(t, got)
		if len(got) != want || !oks[0] {
			t.Fatalf("round %d: %d events, accepted %v", round, len(got), oks)
		}
		for i, r := range got {
			if r.Type == "Approved" && got[i-1].Type == "Cancelled" {
				t.Fatalf("round %d: approved after cancel", round)
			}
		}
	}
}
