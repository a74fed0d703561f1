package projections_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/infra/memory"
	"refold/projections"
	"refold/tests/scenario"
)

var update = flag.Bool("update", false, "write the golden files anew")

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// book is a log that tests write.
type book struct {
	t     testing.TB
	store *memory.Store
	n     int
	v     map[event.Stream]int64
}

func newBook(t testing.TB) *book {
	return &book{t: t, store: memory.New(), v: map[event.Stream]int64{}}
}

func write[E any](b *book, codec *event.Codec[E], category, tenant, id string, facts ...E) {
	b.t.Helper()
	log := event.Log[E]{Store: b.store, Codec: codec, Category: category}
	for _, f := range facts {
		b.n++
		s := log.Stream(tenant, id)
		env := event.Envelope{Time: at(b.n), Meta: event.Metadata{Correlation: "s1"}}
		if _, err := log.Append(context.Background(), tenant, id, event.Exactly(b.v[s]), env, event.Fact[E]{ID: fmt.Sprint("e", b.n), Event: f}); err != nil {
			b.t.Fatal(err)
		}
		b.v[s]++
	}
}

func (b *book) session(id string, facts ...session.Event) {
	write(b, session.Codec, session.Category, "acme", id, facts...)
}

func (b *book) run(id string, facts ...run.Event) {
	write(b, run.Codec, run.Category, "acme", id, facts...)
}

func (b *book) head() event.Position {
	p, err := b.store.Head(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

var (
	usage   = run.Usage{Prompt: 10, Completion: 2, Total: 12}
	posted  = session.MessagePosted{Message: "m1", Run: "r1", Request: "q1", Query: "What <time> is it?", Agent: "a", Channel: "web", Principal: "u", At: at(1)}
	created = session.SessionCreated{Session: "s1", Title: "Clocks", Principal: "u", At: t0}
)

func definition(name, title string) tool.Definition {
	return tool.Definition{Name: name, Title: title, Description: "Does " + name + ".", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.ReadOnly}
}

func began() run.RunStarted {
	return run.RunStarted{Run: "r1", Session: "s1", UserMessage: "m1", Request: "q1", Principal: "u", Query: posted.Query, Language: "en",
		Agent: run.Agent{ID: "a", Name: "A", Model: "m"}, Tools: []tool.Definition{definition("now", "Clock"), definition("send", "")}, At: at(2)}
}

func claim(call, round, attempt, second int) run.ModelCallStarted {
	return run.ModelCallStarted{Call: call, Round: round, Attempt: attempt, Purpose: run.PurposeRound, Owner: "w1", Deadline: at(200), At: at(second)}
}

// clocks is a run with a failed attempt, a preamble, two tools of which one
// asks a person and fails, and an answer.
func clocks() []run.Event {
	return []run.Event{
		began(),
		claim(1, 0, 1, 3),
		run.ModelCallFailed{Call: 1, Attempt: 1, Purpose: run.PurposeRound, Code: "connection", Message: "reset", Text: "Let me", Reasoning: "hm",
			Shown: run.Shown{Cuts: "t2 c10 a6 p", Pending: []run.PendingCall{{ID: "c1", Name: "now"}}}, RetryAt: at(5), At: at(4)},
		claim(2, 0, 2, 5),
		run.Thought{Call: 2, Purpose: run.PurposeRound, Text: "Let me look.", Reasoning: "hm", Finish: "tool_calls", Model: "m-1", Usage: usage,
			Shown: run.Shown{Cuts: "t2 c340 a4 a8 p p", Pending: []run.PendingCall{{ID: "c1_2", Name: "now"}, {ID: "c2", Name: "send"}}}, DurationMS: 1000, At: at(6)},
		run.ToolCallRequested{Call: "c1_2", Name: "now", Args: json.RawMessage(`{"zone":"UTC"}`), ProviderID: "c1", Digest: "d1", At: at(6)},
		run.ToolCallRequested{Call: "c2", Index: 1, Name: "send", Args: json.RawMessage(`{"to":"a@example.test"}`), ProviderID: "c2", Digest: "d2", At: at(6)},
		run.ApprovalRequired{Approval: "p1", Call: "c2", Trigger: run.TriggerPolicy, Tool: "send", ToolHash: "h", Args: json.RawMessage(`{"to":"a@example.test"}`),
			Digest: "d2", Question: "Send it?", Expires: at(606), At: at(6)},
		run.ToolStarted{Call: "c1_2", Attempt: 1, Owner: "w1", Key: "r1/c1_2", Deadline: at(100), At: at(7)},
		run.ToolCompleted{Call: "c1_2", Attempt: 1, Success: true, Output: "12:00", Data: json.RawMessage(`{"display_type":"clock","hour":12}`), DurationMS: 20, At: at(8)},
		run.ApprovalResolved{Approval: "p1", Call: "c2", Outcome: run.Approved, Reason: "fine", By: "u", At: at(9)},
		run.ToolStarted{Call: "c2", Attempt: 1, Owner: "w1", Key: "r1/c2", Deadline: at(100), At: at(10)},
		run.ToolCompleted{Call: "c2", Attempt: 1, Output: "Error: no route", Error: "no route", DurationMS: 30, At: at(11)},
		claim(3, 1, 1, 12),
		run.Thought{Call: 3, Round: 1, Purpose: run.PurposeRound, Text: "It is <noon>.", Finish: "stop", Model: "m-1", Usage: usage, Shown: run.Shown{Cuts: "a6 a7"}, DurationMS: 900, At: at(13)},
		run.RunCompleted{Answer: "It is <noon>.", Call: 3, EndReason: run.EndNatural, Usage: usage.Add(usage), Rounds: 2, DurationMS: 11000, At: at(13)},
	}
}

// recorded gives a run's facts with their positions.
func (b *book) recorded(id string) []event.Recorded[run.Event] {
	b.t.Helper()
	raw, _, err := b.store.Scan(context.Background(), "", event.Filter{Categories: []string{run.Category}}, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []event.Recorded[run.Event]
	for _, r := range raw {
		rec, err := event.Record(run.Codec, r)
		if err != nil {
			b.t.Fatal(err)
		}
		if r.Stream.ID == id {
			out = append(out, rec)
		}
	}
	return out
}

// documents is all that a projection has stored, as text.
func documents(t testing.TB, d projections.Documents, p projections.Projection) string {
	t.Helper()
	var out strings.Builder
	tenant := "acme"
	if p.Name == projections.Keys.Name || p.Name == projections.Tenants.Name {
		tenant = domain.SystemTenant
	}
	for _, collection := range []string{p.ID(), p.ID() + "." + projections.StepCollection} {
		page, err := d.Find(context.Background(), projections.Query{Collection: collection, Tenant: tenant, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range page.Documents {
			var body bytes.Buffer
			if err := json.Indent(&body, doc.Body, "", "  "); err != nil {
				t.Fatal(err)
			}
			index, err := json.Marshal(doc.Index)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s %s\n%s\n", doc.Collection, doc.ID, index, body.String())
		}
	}
	return out.String()
}

// golden compares events, a line of dashes, and what they become, with a file.
func golden(t *testing.T, name string, facts []run.Event, result string) {
	t.Helper()
	got := scenario.Text(facts) + "\n----\n" + result
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := scenario.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Fatalf("%s (- wanted, + got):\n%s", file, d)
	}
}

// project folds the whole log into documents and waits for all of it.
func (b *book) project(d projections.Documents, list ...projections.Projection) *projections.Engine {
	b.t.Helper()
	e := &projections.Engine{Store: b.store, Documents: d, Log: quiet, List: list}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	for _, p := range list {
		if err := e.Await(ctx, p, b.head()); err != nil {
			b.t.Fatal(err)
		}
	}
	cancel()
	<-done
	return e
}
