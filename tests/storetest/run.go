// Package storetest is what every store has to pass: suites for the event log
// (Run), read models (RunDocuments), blobs (RunBlobs) and the index of knowledge
// (RunIndex), shared by all implementations. It imports the ports and testing; only _test.go files import
// it. The numbers in test names are those of the field cases. Start reading at
// Run.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"refold/domain/event"
)

// Factory makes the stores under test. The suites do not expect the log to be
// empty: each test uses tenants of its own.
type Factory struct {
	// Open gives a store; the factory closes it when the test ends, if it is
	// still open.
	Open func(t testing.TB) event.Store
	// Reopen closes a store from Open and opens its data again; nil for stores
	// that do not persist.
	Reopen func(t testing.TB, s event.Store) event.Store
}

// Run is the suite for event.Store.
func Run(t *testing.T, f Factory) {
	tests := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"versions and positions", testVersions},
		{"expectations", testExpect},
		{"all or nothing", testAllOrNothing},
		{"same ids again", testAgain},
		{"same ids again at the same time", testAgainConcurrent},
		{"ids are unique over the log", testUniqueIDs},
		{"read pages", testReadPages},
		{"envelopes come back whole", testEnvelope},
		{"two writers on one stream", testRace},
		{"P79 twenty writers and one tail", testTail},
		{"P79 a rolled back append leaves no hole that stops a reader", testRollbackGap},
		{"P80 failed appends do not move a checkpoint", testCheckpoint},
		{"P81 two quick commands reload and decide again", testReload},
		{"P85 NUL and half surrogates", testPayloads},
		{"large payloads", testLarge},
		{"limits", testLimits},
		{"tenants never see each other", testTenants},
		{"filter by category", testCategories},
		{"transient streams and trim", testTransient},
		{"scan pages", testScanPages},
		{"scan reports how far it looked", testScanUpTo},
		{"bad positions", testBadPosition},
		{"wait", testWait},
		{"follow", testFollow},
		{"cancelled contexts", testCancelled},
		{"stored bytes belong to the store", testAliasing},
		{"close", testClose},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, &suite{t: t, f: f, s: f.Open(t), tenant: unique("tenant")})
		})
	}
	if f.Reopen != nil {
		t.Run("reopen", func(t *testing.T) {
			testReopen(t, &suite{t: t, f: f, s: f.Open(t), tenant: unique("tenant")})
		})
	}
}

// suite is one test with its store and a tenant that nobody else uses.
type suite struct {
	t      *testing.T
	f      Factory
	s      event.Store
	tenant string
}

var serial atomic.Int64

// unique makes names that differ between runs, as a shared server keeps its log.
var run = time.Now().UnixNano()

func unique(what string) string { return fmt.Sprintf("%s-%x-%d", what, run, serial.Add(1)) }

// stream makes a new stream of a category.
func (s *suite) stream(category string) event.Stream {
	return event.Stream{Tenant: s.tenant, Category: category, ID: unique(category)}
}

// events makes n events with fresh ids.
func events(n int) []event.New {
	out := make([]event.New, n)
	for i := range out {
		out[i] = event.New{ID: unique("event"), Type: "Happened", Schema: 1, Time: time.Unix(1700000000, 123456000).UTC(),
			Data: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return out
}

func (s *suite) append(st event.Stream, expect event.Expect, e ...event.New) event.Appended {
	s.t.Helper()
	a, err := s.s.Append(s.t.Context(), st, expect, e...)
	if err != nil {
		s.t.Fatalf("append to %s: %v", st, err)
	}
	return a
}

func (s *suite) read(st event.Stream) []event.Raw {
	s.t.Helper()
	var out []event.Raw
	for after := int64(0); ; {
		page, err := s.s.Read(s.t.Context(), st, after, 0)
		if err != nil {
			s.t.Fatalf("read %s: %v", st, err)
		}
		out = append(out, page...)
		if len(page) < 1000 {
			return out
		}
		after = page[len(page)-1].Version
	}
}

// scan follows a filter from a position to the end.
func (s *suite) scan(after event.Position, f event.Filter, limit int) []event.Raw {
	s.t.Helper()
	var out []event.Raw
	for {
		page, upTo, err := s.s.Scan(s.t.Context(), after, f, limit)
		if err != nil {
			s.t.Fatalf("scan after %q: %v", after, err)
		}
		out = append(out, page...)
		if len(page) == 0 && upTo == after {
			return out
		}
		if upTo < after {
			s.t.Fatalf("scan went back from %q to %q", after, upTo)
		}
		after = upTo
	}
}

func (s *suite) mine() event.Filter { return event.Filter{Tenant: s.tenant} }

// refused expects a failed append.
func (s *suite) refused(want error, st event.Stream, expect event.Expect, e ...event.New) {
	s.t.Helper()
	if _, err := s.s.Append(s.t.Context(), st, expect, e...); !errors.Is(err, want) {
		s.t.Fatalf("append to %s: got %v, want %v", st, err, want)
	}
}

// contiguous checks that versions count from 1 without holes, and that positions
// grow.
func contiguous(t *testing.T, got []event.Raw) {
	t.Helper()
	for i, r := range got {
		if r.Version != int64(i+1) {
			t.Fatalf("event %d of %s has version %d", i+1, r.Stream, r.Version)
		}
		if i > 0 && r.Position <= got[i-1].Position {
			t.Fatalf("positions %q, %q of %s do not grow", got[i-1].Position, r.Position, r.Stream)
		}
	}
}

func ids[E event.New | event.Raw](in []E) string {
	out := make([]string, len(in))
	for i, e := range in {
		switch e := any(e).(type) {
		case event.New:
			out[i] = e.ID
		case event.Raw:
			out[i] = e.ID
		}
	}
	return strings.Join(out, " ")
}

func same[E event.New | event.Raw](t *testing.T, got []event.Raw, want []E) {
	t.Helper()
	if ids(got) != ids(want) {
		t.Fatalf("got events\n%s\nwant\n%s", ids(got), ids(want))
	}
}

// soon bounds tests that wait for something that must happen.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
