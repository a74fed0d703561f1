package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestUsage: tokens by run, session, day and model add up to those of the
// messages and of the title.
func TestUsage(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, scripted.Say(scripted.Text("One."), scripted.Usage(100, 10, 110)), scripted.Say(scripted.Text("Name"), scripted.Usage(30, 3, 33)),
		scripted.Say(call("c1", "look", `{"at":"x"}`), scripted.Usage(7, 1, 8)), scripted.Say(scripted.Text("Two."), scripted.Usage(200, 20, 220)))
	a, b := l.untitled(t), l.session(t)
	one := l.chat(t, a, "q")
	one.rest(t)
	two := l.chat(t, b, "q")
	two.rest(t)
	type spent struct {
		Key   string
		Calls int
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	var u struct {
		spent
		Rows []spent
	}
	for by, want := range map[string]map[string]int{"run": {one.run(): 143, two.run(): 228}, "session": {a: 143, b: 228}, "model": {"scripted": 371}, "day": nil, "": nil} {
		u.Rows = nil
		l.do(t, "GET", "/api/v1/usage?by="+by, nil).data(t, 200, &u)
		sum := 0
		for _, r := range u.Rows {
			sum += r.Usage.Total
			if want != nil && r.Usage.Total != want[r.Key] {
				t.Errorf("by %s: %+v", by, r)
			}
		}
		if u.Usage.Total != 371 || u.Calls != 4 || sum != 371 || want != nil && len(u.Rows) != len(want) {
			t.Errorf("by %s: %+v", by, u)
		}
	}
	sum := 33
	for _, id := range []string{a, b} {
		for _, m := range l.messages(t, id) {
			if m.Usage != nil {
				sum += m.Usage.Total
			}
		}
	}
	if sum != 371 {
		t.Errorf("the messages and the title sum up to %d", sum)
	}
	for _, q := range []string{"from=2020-01-01&to=2020-12-31", "to=2020-01-01T00:00:00Z&from=2019-01-01"} {
		u.Rows = nil
		l.do(t, "GET", "/api/v1/usage?by=run&"+q, nil).data(t, 200, &u)
		if raw, _ := json.Marshal(u.Rows); u.Usage.Total != 0 || string(raw) != "[]" {
			t.Errorf("%s: %+v", q, u)
		}
	}
	for _, q := range []string{"by=moon", "from=yesterday", "from=2026-02-02&to=2026-02-01", "to=" + strings.Repeat("9", 99)} {
		l.do(t, "GET", "/api/v1/usage?"+q, nil).refused(t, 400, 1000, "bad_request", "")
	}
}
