package e2e

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/domain"
	"refold/domain/agent"
	"refold/domain/event"
	runs "refold/domain/run"
	"refold/domain/session"
	"refold/infra/app"
	"refold/infra/sqlite"
)

// record writes a session of that many turns into a data directory, as if they
// had happened, a second apart.
func record(t testing.TB, data, id string, turns int, began time.Time) {
	t.Helper()
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), app.DatabaseFile(data), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	next := 0
	fact := func() string { next++; return fmt.Sprintf("fact-%d", next) }
	env := event.Envelope{Time: began, Meta: event.Metadata{Correlation: id, Actor: "local"}}
	said := event.Log[session.Event]{Store: db.Events(), Codec: session.Codec, Category: session.Category}
	log := event.Log[runs.Event]{Store: db.Events(), Codec: runs.Codec, Category: runs.Category}
	version := int64(0)
	tell := func(facts []event.Fact[session.Event]) {
		t.Helper()
		if _, err := said.Append(t.Context(), domain.DefaultTenant, id, event.Exactly(version), env, facts...); err != nil {
			t.Fatal(err)
		}
		version += int64(len(facts))
	}
	facts := []event.Fact[session.Event]{{ID: fact(), Event: session.SessionCreated{Session: id, Title: "Long", At: began}}}
	var stories [][]event.Fact[runs.Event]
	for n := range turns {
		at, runID := began.Add(time.Duration(n)*time.Second), fmt.Sprintf("run-%d", n)
		posted := session.MessagePosted{Message: fmt.Sprintf("message-%d", n), Run: runID, Request: "request-" + runID, Query: fmt.Sprintf("q%05d", n), Agent: agent.SmartReasoning, At: at}
		if facts = append(facts, event.Fact[session.Event]{ID: fact(), Event: posted}); len(facts) == event.MaxBatch {
			tell(facts)
			facts = nil
		}
		story := []event.Fact[runs.Event]{
			{ID: fact(), Event: runs.RunStarted{Run: runID, Session: id, UserMessage: posted.Message, Request: posted.Request, Query: posted.Query, Language: "en", Agent: runs.Agent{ID: posted.Agent, Name: "A", Model: "scripted"}, At: at}},
			{ID: fact(), Event: runs.ModelCallStarted{Call: 1, Attempt: 1, Purpose: runs.PurposeRound, Owner: "before", Deadline: at.Add(time.Minute), At: at}},
			{ID: fact(), Event: runs.Thought{Call: 1, Purpose: runs.PurposeRound, Text: "Answer to " + posted.Query, Finish: "stop", At: at}},
			{ID: fact(), Event: runs.RunCompleted{Answer: "Answer to " + posted.Query, Call: 1, EndReason: runs.EndNatural, Rounds: 1, At: at}},
		}
		stories = append(stories, story)
	}
	tell(facts)
	// A run comes after its message.
	slots, wg := make(chan struct{}, 64), sync.WaitGroup{}
	for n, story := range stories {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := log.Append(t.Context(), domain.DefaultTenant, fmt.Sprintf("run-%d", n), event.NoStream(), env, story...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestFiveThousandMessages: a conversation of 5,000 messages is read page by page,
// goes on, and what its next turn costs does not grow with it.
func TestFiveThousandMessages(t *testing.T) {
	const turns, id = 2500, "long"
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	l := newLab(t, func(s *settings) {
		s.Volume = true
		s.Rate, s.ChatRate = "off", "off"
		record(t, s.Data, id, turns, began)
	})
	l.ready(t, "")
	// The read models are built of what is there first.
	for ctx := guarded(t); ; {
		a, err := l.try(ctx, "GET", "/api/v1/messages/"+id+"/load?limit=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.body, fmt.Sprintf("Answer to q%05d", turns-1)) {
			break
		}
	}
	load := "/api/v1/messages/" + id + "/load?limit=1000"
	seen, before := 0, ""
	for page := 0; ; page++ {
		var list []struct {
			Content string    `json:"content"`
			At      time.Time `json:"created_at"`
		}
		a := l.do(t, "GET", load+before, nil)
		a.data(t, 200, &list)
		if len(list) == 0 {
			break
		}
		if len(list) > 1000 || len(a.body) > 2<<20 {
			t.Fatalf("page %d: %d messages in %d bytes", page, len(list), len(a.body))
		}
		if first := turns - (seen+len(list))/2; list[0].Content != fmt.Sprintf("q%05d", first) || list[1].Content != fmt.Sprintf("Answer to q%05d", first) {
			t.Fatalf("page %d begins with %+v, want turn %d", page, list[:2], first)
		}
		seen += len(list)
		before = "&before_time=" + url.QueryEscape(list[0].At.Format(time.RFC3339Nano))
	}
	if seen != 2*turns {
		t.Errorf("%d messages of %d", seen, 2*turns)
	}
	l.do(t, "GET", "/api/v1/messages/"+id+"/load?limit=1000000", nil).refused(t, 400, 1000, "bad_request", "1000")
	if n := strings.Count(wire(l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", "").rest(t)), `"response_type":"complete"`); n != turns {
		t.Errorf("the session's feed has %d ends", n)
	}
	var sizes []int
	for i := range 3 {
		l.model.Push(say("Go on."))
		began := time.Now()
		if got := shown(l.chat(t, id, "and?").rest(t), "answer"); got != "Go on." {
			t.Fatalf("turn %d: %q", turns+i, got)
		}
		t.Logf("turn %d took %v", turns+i, time.Since(began))
		req := l.model.Requests()[i]
		sizes = append(sizes, len(req.Body))
		if len(req.Messages) > 12 || len(req.Body) > 40_000 {
			t.Errorf("turn %d: a request of %d messages in %d bytes", turns+i, len(req.Messages), len(req.Body))
		}
		if text := string(req.Body); !strings.Contains(text, fmt.Sprintf("q%05d", turns-1)) || strings.Contains(text, "q00000") {
			t.Errorf("turn %d has the wrong turns", turns+i)
		}
	}
	t.Logf("requests of %v bytes", sizes)
	if list := l.messages(t, id); list[len(list)-1].Content != "Go on." {
		t.Errorf("the last message is %q", list[len(list)-1].Content)
	}
}
