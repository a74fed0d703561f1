package projections_test

import (
	"encoding/json"
	"testing"
	"time"

	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// TestUsage_AddsUp: however it is grouped, the view holds exactly the tokens of
// the events.
func TestUsage_AddsUp(t *testing.T) {
	b := told(t, clocks()...)
	b.session("s1", session.SessionTitled{Run: "r1", Title: "T", Source: session.TitleByModel, Model: "m2",
		Usage: session.Usage{Prompt: 40, Completion: 4, Total: 44, Cached: 8}, At: at(30)},
		session.SessionTitled{Title: "T", Source: session.TitleByModel, Usage: session.Usage{Total: 7}, At: at(0).Add(48 * time.Hour)},
		session.SessionTitled{Title: "T", Source: session.TitleByQuestion, At: at(31)})
	want, calls := run.Usage{Prompt: 40, Completion: 4, Total: 51, Cached: 8}, 2
	for _, e := range clocks() {
		if th, ok := e.(run.Thought); ok {
			want, calls = want.Add(th.Usage), calls+1
		}
	}
	d := &memory.Documents{}
	b.project(d, projections.Usage)
	for _, kind := range []string{"", ".run", ".session"} {
		p, err := d.Find(t.Context(), projections.Query{Collection: projections.Usage.ID() + kind, Tenant: "acme", Limit: 1000})
		if err != nil || len(p.Documents) < 2 {
			t.Fatalf("%q: %d rows, %v", kind, len(p.Documents), err)
		}
		got, n := run.Usage{}, 0
		for _, doc := range p.Documents {
			var s projections.Spent
			if err := json.Unmarshal(doc.Body, &s); err != nil {
				t.Fatal(err)
			}
			got, n = got.Add(s.Usage), n+s.Calls
		}
		if got != want || n != calls {
			t.Errorf("%q sums up to %+v in %d calls, the events to %+v in %d", kind, got, n, want, calls)
		}
	}
}
