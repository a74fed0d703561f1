package storetest

import (
	"errors"
	"fmt"
	"testing"

	"refold/domain/event"
)

func testReadPages(t *testing.T, s *suite) {
	st := s.stream("run")
	all := append(events(1000), events(500)...)
	s.append(st, event.NoStream(), all[:1000]...)
	s.append(st, event.Exactly(1000), all[1000:]...)
	for _, c := range []struct {
		after int64
		limit int
		from  int
		to    int
	}{{0, 0, 0, 1000}, {0, -1, 0, 1000}, {0, 5000, 0, 1000}, {1000, 0, 1000, 1500}, {10, 5, 10, 15}, {1498, 5, 1498, 1500}, {1500, 5, 1500, 1500}, {9999, 5, 1500, 1500}, {-5, 2, 0, 2}} {
		got, err := s.s.Read(t.Context(), st, c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, all[c.from:c.to])
		for i, r := range got {
			if r.Version != int64(c.from+i+1) || r.Stream != st {
				t.Fatalf("event %d has version %d of %v", c.from+i, r.Version, r.Stream)
			}
		}
	}
}

func testTenants(t *testing.T, s *suite) {
	other := unique("tenant")
	a := event.Stream{Tenant: s.tenant, Category: "run", ID: "same"}
	b := event.Stream{Tenant: other, Category: "run", ID: "same"}
	mine, theirs := events(3), events(2)
	s.append(a, event.NoStream(), mine...)
	s.append(b, event.NoStream(), theirs...)
	same(t, s.read(a), mine)
	same(t, s.read(b), theirs)
	same(t, s.scan("", event.Filter{Tenant: s.tenant}, 0), mine)
	same(t, s.scan("", event.Filter{Tenant: other}, 0), theirs)
	same(t, s.scan("", event.Filter{Tenant: unique("nobody")}, 0), []event.New{})
	// The first answer to another tenant's ids would tell that they exist.
	s.refused(event.ErrInvalid, event.Stream{Tenant: other, Category: "run", ID: "new"}, event.NoStream(), mine[0])
	both := map[string]int{}
	for _, r := range s.scan("", event.Filter{}, 0) {
		both[r.Stream.Tenant]++
	}
	if both[s.tenant] != 3 || both[other] != 2 {
		t.Fatalf("a scan of all tenants found %d and %d events", both[s.tenant], both[other])
	}
}

func testCategories(t *testing.T, s *suite) {
	var all, runs, runsAndSessions []event.New
	for i := range 60 {
		category := []string{"run", "session", "agent", "model", "skill"}[i%5]
		e := events(1)
		s.append(s.stream(category), event.NoStream(), e...)
		all = append(all, e...)
		if category == "run" {
			runs = append(runs, e...)
		}
		if category == "run" || category == "session" {
			runsAndSessions = append(runsAndSessions, e...)
		}
	}
	for _, limit := range []int{0, 1, 7} {
		same(t, s.scan("", s.mine(), limit), all)
		same(t, s.scan("", event.Filter{Tenant: s.tenant, Categories: []string{"run"}}, limit), runs)
		same(t, s.scan("", event.Filter{Tenant: s.tenant, Categories: []string{"session", "run", "run", "none"}}, limit), runsAndSessions)
		same(t, s.scan("", event.Filter{Tenant: s.tenant, Categories: []string{}}, limit), []event.New{})
	}
	unseen := map[string]bool{}
	for _, e := range runs {
		unseen[e.ID] = true
	}
	for _, r := range s.scan("", event.Filter{Categories: []string{"run"}}, 0) {
		if r.Stream.Category != "run" {
			t.Fatalf("got an event of %s", r.Stream)
		}
		delete(unseen, r.ID)
	}
	if len(unseen) > 0 {
		t.Fatalf("%d events of the category are missing", len(unseen))
	}
}

func testTransient(t *testing.T, s *suite) {
	fact, delta := s.stream("run"), s.stream(event.CategoryDelta)
	kept := s.stream(event.CategoryDelta)
	f, d, k, last := events(2), events(3), events(1), events(1)
	s.append(fact, event.NoStream(), f[0])
	s.append(delta, event.NoStream(), d[:2]...)
	s.append(fact, event.Exactly(1), f[1])
	s.append(kept, event.NoStream(), k...)
	top := s.append(delta, event.Exactly(2), d[2])
	deltas := event.Filter{Tenant: s.tenant, Categories: []string{event.CategoryDelta}}
	same(t, s.scan("", s.mine(), 0), f)
	same(t, s.scan("", deltas, 0), []event.New{d[0], d[1], k[0], d[2]})
	same(t, s.scan("", event.Filter{Tenant: s.tenant, Categories: []string{event.CategoryDelta, "run"}}, 2), []event.New{f[0], d[0], d[1], f[1], k[0], d[2]})
	same(t, s.read(delta), d)
	if err := s.s.Trim(t.Context(), fact); !errors.Is(err, event.ErrInvalid) {
		t.Fatalf("trim of facts: %v", err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := s.s.Trim(t.Context(), delta); err != nil {
			t.Fatal(err)
		}
	}
	same(t, s.read(delta), []event.New{})
	same(t, s.read(kept), k)
	same(t, s.read(fact), f)
	same(t, s.scan("", deltas, 0), k)
	next := s.append(fact, event.Exactly(2), last...)
	if next.Position <= top.Position {
		t.Fatalf("position %q after trim, %q was given out before", next.Position, top.Position)
	}
	same(t, s.scan(top.Position, s.mine(), 0), last)
}

func testScanPages(t *testing.T, s *suite) {
	var want []event.New
	for i := range 30 {
		e := events(i%4 + 1)
		s.append(s.stream("run"), event.NoStream(), e...)
		want = append(want, e...)
	}
	for _, limit := range []int{1, 2, 7, 1000, 0, 2000} {
		got := s.scan("", s.mine(), limit)
		same(t, got, want)
		for i := 1; i < len(got); i++ {
			if got[i].Position <= got[i-1].Position {
				t.Fatalf("positions %q, %q do not grow", got[i-1].Position, got[i].Position)
			}
		}
		// From each event on, exactly the rest comes.
		if limit == 0 {
			for i := range got {
				same(t, s.scan(got[i].Position, s.mine(), 0), want[i+1:])
			}
		}
	}
	page, _, err := s.s.Scan(t.Context(), "", s.mine(), 3)
	if err != nil || len(page) > 3 {
		t.Fatalf("a page of 3 has %d events: %v", len(page), err)
	}
}

func testScanUpTo(t *testing.T, s *suite) {
	none := event.Filter{Tenant: unique("nobody")}
	a := s.append(s.stream("run"), event.NoStream(), events(1)...)
	at := event.Position("")
	for {
		page, upTo, err := s.s.Scan(t.Context(), at, none, 0)
		if err != nil || len(page) != 0 {
			t.Fatalf("scan for nobody: %d events, %v", len(page), err)
		}
		if upTo == at {
			break
		}
		at = upTo
	}
	if at < a.Position {
		t.Fatalf("the scan looked up to %q, an event was at %q", at, a.Position)
	}
	e := events(1)
	s.append(s.stream("run"), event.NoStream(), e...)
	same(t, s.scan(at, s.mine(), 0), e)
	page, upTo, err := s.s.Scan(t.Context(), at, s.mine(), 1)
	if err != nil || len(page) != 1 || upTo < page[0].Position {
		t.Fatalf("scan: %d events up to %q, %v", len(page), upTo, err)
	}
}

func testBadPosition(t *testing.T, s *suite) {
	s.append(s.stream("run"), event.NoStream(), events(1)...)
	for _, p := range []event.Position{"garbage", "-1", "00", " "} {
		if _, _, err := s.s.Scan(t.Context(), p, event.Filter{}, 0); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("scan after %q: %v", p, err)
		}
	}
}

func testReopen(t *testing.T, s *suite) {
	st, delta := s.stream("run"), s.stream(event.CategoryDelta)
	want := events(5)
	a := s.append(st, event.NoStream(), want...)
	trimmed := s.append(delta, event.NoStream(), events(3)...)
	if err := s.s.Trim(t.Context(), delta); err != nil {
		t.Fatal(err)
	}
	s.s = s.f.Reopen(t, s.s)
	same(t, s.read(st), want)
	same(t, s.scan("", s.mine(), 2), want)
	same(t, s.read(delta), []event.New{})
	if again := s.append(st, event.NoStream(), want...); again != a {
		t.Fatalf("again after reopen: %+v, the first answer was %+v", again, a)
	}
	s.refused(event.ErrConflict, st, event.NoStream(), events(1)...)
	more := events(1)
	b := s.append(st, event.Exactly(5), more...)
	if b.Position <= trimmed.Position || b.Version != 6 {
		t.Fatalf("%+v after reopen, trimmed events went up to %q", b, trimmed.Position)
	}
	same(t, s.scan(trimmed.Position, s.mine(), 0), more)
	for i := range 3 {
		s.s = s.f.Reopen(t, s.s)
		s.append(st, event.Exactly(int64(6+i)), events(1)...)
	}
	contiguous(t, s.read(st))
	if n := len(s.read(st)); n != 9 {
		t.Fatal(fmt.Sprint(n, " events"))
	}
}
