package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain"
	"refold/domain/event"
	runs "refold/domain/run"
	"refold/infra/app"
	"refold/infra/sqlite"
)

// TestDamagedEvent: an event that can't be decoded is named by its place and type
// with what to do, on every route that meets it, in a stream that had begun, and
// at the command line with and without a server. The rest of the record works.
func TestDamagedEvent(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"data", "meta"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			damaged(t, part)
		})
	}
}

func damaged(t *testing.T, column string) {
	const id = "damaged"
	var where string
	l := newLab(t, func(s *settings) {
		record(t, s.Data, id, 2, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		where = damage(t, s.Data, "run-1", 4, column)
	})
	says := func(what, text string) {
		t.Helper()
		for _, part := range []string{"the record is damaged", "position " + where, "ToolCompleted", "restore a backup", "do not help"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q: %s", what, part, text)
			}
		}
		if strings.Contains(text, "log has it") {
			t.Errorf("%s: %s", what, text)
		}
	}
	for _, path := range []string{"/api/v1/messages/" + id + "/load", "/api/v1/runs", "/api/v1/runs/run-1", "/api/v1/tool-log", "/api/v1/agent/tool-approvals",
		continued(id, "run-1"), "/api/v1/sessions/" + id + "/events?follow=false&message_id=run-1"} {
		a := l.do(t, "GET", path, nil)
		if a.status != 503 || !strings.Contains(a.body, `"code":1008`) || !strings.Contains(a.body, `"reason":"record_damaged"`) || strings.Contains(a.body, "run-1") {
			t.Errorf("%s: HTTP %d %s", path, a.status, a.body)
		}
		says(path, a.body)
	}
	says("/readyz", l.do(t, "GET", "/readyz", nil).body)
	frames := l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", "").rest(t)
	last := frames[len(frames)-1]
	if len(frames) < 2 || last.Type != "error" || !last.Done || shown(frames, "answer") != "Answer to q00000" {
		t.Errorf("the stream of the session: %s", wire(frames))
	}
	says("the last frame", last.Content)
	if r := refold(t, "--data", l.s.Data, "approvals"); r.code != 1 {
		t.Errorf("approvals beside the server: exit %d", r.code)
	} else {
		says("approvals", r.stderr)
	}
	l.model.Always(say("Fine."))
	if next := l.chat(t, l.session(t), "q").rest(t); shown(next, "answer") != "Fine." {
		t.Errorf("another session: %s", wire(next))
	}
	if code := l.p.term(t); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	for _, args := range []string{"approvals", "replay run-1", "rebuild", "--json approvals", "ask --session damaged hello"} {
		r := refold(t, append([]string{"--data", l.s.Data}, strings.Fields(args)...)...)
		if r.code != 1 {
			t.Errorf("%s: exit %d", args, r.code)
		}
		says(args, r.stdout+r.stderr)
	}
}

// damage appends an event to a run at a version, whose data or metadata can't be
// decoded, and gives its place.
func damage(t testing.TB, data, run string, at int64, column string) string {
	t.Helper()
	path := app.DatabaseFile(data)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done, err := db.Events().Append(t.Context(), event.Stream{Tenant: domain.DefaultTenant, Category: runs.Category, ID: run}, event.Exactly(at),
		event.New{ID: "broken", Type: "ToolCompleted", Schema: 1, Time: time.Unix(1700000000, 0).UTC(), Data: []byte("{}")})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := map[string]string{"data": "CAST('{broken' AS BLOB)", "meta": "'{broken'"}[column]
	if err := c.Exec("UPDATE event SET " + column + " = " + text + " WHERE id = 'broken'"); err != nil {
		t.Fatal(err)
	}
	return string(done.Position)
}
