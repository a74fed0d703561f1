package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"refold/domain/event"
)

func testPayloads(t *testing.T, s *suite) {
	roundTrip(t, s,
		`{"stdout":"o\u0000k\u0000","cut":"abc\ud83d","ok":"\ud83d\ude00","literal":"C:\\u0000dir"}`,
		`{"b":1,"a":2,"a":3}`, // neither sorted nor mended
		` { "space" : 1.50000e2 } `,
		`{"emoji":"😀","bmp":"\uffff","sep":"\u2028"}`,
		`"text"`, `null`, `[]`, `0`)
}

// RunBytes checks that payloads need not be JSON or even text: for stores that
// promise to keep any bytes.
func RunBytes(t *testing.T, f Factory) {
	s := &suite{t: t, f: f, s: f.Open(t), tenant: unique("tenant")}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	roundTrip(t, s, "\x00", "a\x00b", "\xed\xa0\xbd", "\xff\xfe", string(all), strings.Repeat("\x00", 70000))
}

func roundTrip(t *testing.T, s *suite, payloads ...string) {
	t.Helper()
	st := s.stream("run")
	batch := events(len(payloads))
	for i, p := range payloads {
		batch[i].Data = []byte(p)
	}
	s.append(st, event.NoStream(), batch...)
	for name, got := range map[string][]event.Raw{"read": s.read(st), "scan": s.scan("", s.mine(), 0)} {
		same(t, got, batch)
		for i, r := range got {
			if string(r.Data) != payloads[i] {
				t.Errorf("%s: got %.80q, want %.80q", name, r.Data, payloads[i])
			}
		}
	}
}

func testLarge(t *testing.T, s *suite) {
	payload := func(n int) string { return `"` + strings.Repeat("0123456789abcdef", n/16)[:n-2] + `"` }
	roundTrip(t, s, payload(4000), payload(4096), payload(1<<20), payload(1<<20+1), payload(3<<20))
}

func testLimits(t *testing.T, s *suite) {
	st := s.stream("run")
	ok := events(1)[0]
	with := func(change func(*event.New)) event.New {
		e := events(1)[0]
		change(&e)
		return e
	}
	for name, e := range map[string]event.New{
		"no id":       with(func(e *event.New) { e.ID = "" }),
		"long id":     with(func(e *event.New) { e.ID = strings.Repeat("x", event.MaxIDLen+1) }),
		"no type":     with(func(e *event.New) { e.Type = "" }),
		"no schema":   with(func(e *event.New) { e.Schema = 0 }),
		"large event": with(func(e *event.New) { e.Data = bytes.Repeat([]byte("1"), event.MaxPayload+1) }),
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{t: t, s: s.s}
			s.refused(event.ErrInvalid, st, event.NoStream(), ok, e)
		})
	}
	s.refused(event.ErrInvalid, st, event.NoStream())
	s.refused(event.ErrInvalid, st, event.NoStream(), ok, ok)
	s.refused(event.ErrInvalid, st, event.NoStream(), events(event.MaxBatch+1)...)
	for _, bad := range []event.Stream{
		{Category: "run", ID: "x"}, {Tenant: s.tenant, ID: "x"}, {Tenant: s.tenant, Category: "run"},
		{Tenant: "a/b", Category: "run", ID: "x"}, {Tenant: s.tenant, Category: "run", ID: "a\nb"},
		{Tenant: s.tenant, Category: "run", ID: strings.Repeat("x", event.MaxIDLen+1)},
	} {
		s.refused(event.ErrInvalid, bad, event.NoStream(), ok)
		if _, err := s.s.Read(t.Context(), bad, 0, 0); err == nil {
			t.Errorf("read of %q succeeded", bad)
		}
		if err := s.s.Trim(t.Context(), bad); err == nil {
			t.Errorf("trim of %q succeeded", bad)
		}
	}
	if got := s.read(st); len(got) != 0 {
		t.Fatalf("%d events of refused appends were written", len(got))
	}
	s.append(st, event.NoStream(), events(event.MaxBatch)...)
	long := event.Stream{Tenant: strings.Repeat("t", event.MaxIDLen), Category: strings.Repeat("c", event.MaxIDLen), ID: unique(strings.Repeat("i", 100))}
	s.append(long, event.NoStream(), with(func(e *event.New) {
		e.ID = (e.ID + strings.Repeat("x", event.MaxIDLen))[:event.MaxIDLen]
		e.Data = fmt.Appendf(nil, `"%s"`, strings.Repeat("y", event.MaxPayload-2))
	}))
	got := s.read(long)
	if len(got) != 1 || len(got[0].Data) != event.MaxPayload {
		t.Fatalf("the largest event did not come back")
	}
}

func testAliasing(t *testing.T, s *suite) {
	st := s.stream("run")
	e := events(1)
	s.append(st, event.NoStream(), e...)
	want := string(e[0].Data)
	e[0].Data[0] = 'X'
	s.read(st)[0].Data[0] = 'Y'
	if got := string(s.read(st)[0].Data); got != want {
		t.Fatalf("stored bytes changed from %s to %s", want, got)
	}
}
