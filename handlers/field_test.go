package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/handlers"
)

// P82: facts that are delivered again, to the same process or to another, after
// a restart or not, do nothing again: the log says what was done.
func TestP82_DeliveredAgain(t *testing.T) {
	w := newWorld(t, func(_ context.Context, _ int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if req.Messages[len(req.Messages)-1].Role == handlers.RoleTool {
			return say(emit, "", "Sent.")
		}
		return say(emit, "", "", call("", "send", "{}"))
	})
	w.tools.define("send", tool.SideEffect, output("sent"))
	p := w.start("w1")
	var ids []string
	for range 2 {
		id := w.post("Send it.")
		w.over(id)
		ids = append(ids, id)
	}
	head, err := w.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids { // again, to the process that has done it
		p.Wake(handlers.OpenRun{Tenant: tenant, Session: w.session, Run: id})
	}
	w.kill(p)
	// Another one is told everything from the start, and asked for the runs as well.
	again := w.start("w2")
	for _, id := range ids {
		again.Wake(handlers.OpenRun{Tenant: tenant, Session: w.session, Run: id})
	}
	last := w.post("Send it.") // which it does after all that it was told before
	w.over(last)
	w.tools.mu.Lock()
	defer w.tools.mu.Unlock()
	if len(w.tools.ran) != 3 || w.model.count() != 6 {
		t.Fatalf("%d calls of the tool, %d of the model; want 3 and 6", len(w.tools.ran), w.model.count())
	}
	recs, _, err := w.store.Scan(t.Context(), head, event.Filter{Categories: []string{run.Category}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if r.Stream.ID != last {
			t.Fatalf("%s was appended to the finished run %s", r.Type, r.Stream.ID)
		}
	}
}

// P83: a message that this version can't read stops its own run, is said, and
// nothing behind it waits.
func TestP83_AMessageThatCannotBeRead(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	p := w.start("w1")
	stream := event.Stream{Tenant: tenant, Category: session.Category, ID: "poison"}
	for i, data := range []string{`"not an object"`, `{"run":7}`} {
		if _, err := w.store.Append(t.Context(), stream, event.Exactly(int64(i)), event.New{ID: fmt.Sprint("poison-", i), Type: "MessagePosted", Schema: 1, Time: t0, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Append(t.Context(), stream, event.Exactly(2), event.New{ID: "newer", Type: "MessagePosted", Schema: 99, Time: t0, Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if s := w.over(w.post("What time is it?")); s.Answer != "Noon." {
		t.Fatalf("%+v", s)
	}
	if n := strings.Count(p.log.String(), "a posted message can't be read"); n != 3 {
		t.Fatalf("said %d times: %s", n, p.log)
	}
}

// P30: the reasoning of a round is on the record; another process, which has the
// log and nothing else, sends it back.
func TestP30_ReasoningSurvivesARestart(t *testing.T) {
	begun := make(chan struct{}, 1)
	first := true
	w := newWorld(t, func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n == 1 {
			return say(emit, "need the tool", "", call("c1", "now", "{}"))
		}
		return say(emit, "", "Noon.")
	})
	w.tools.define("now", tool.ReadOnly, func(ctx context.Context, c tool.Call) handlers.ToolOutcome {
		if first {
			first = false
			begun <- struct{}{}
			<-ctx.Done()
		}
		return handlers.ToolOutcome{Success: true, Output: "12:00"}
	})
	p := w.start("w1")
	id := w.post("What time is it?")
	<-begun
	w.kill(p)
	w.start("w2")
	w.over(id)
	m := w.model.request(2).Messages
	if a := m[2]; a.Reasoning != "need the tool" || a.Calls[0].ID != "c1" || m[3].CallID != "c1" {
		t.Fatalf("%+v", m)
	}
}

// P38: as many parallel calls as a reply may have, every third of which panics,
// more than once: results in the order of the calls, one for each.
func TestP38_ManyAtOnce(t *testing.T) {
	const rounds = 20
	w := newWorld(t, func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n > rounds {
			return say(emit, "", "Done.")
		}
		var calls []handlers.ModelCall
		for i := range run.MaxCalls {
			calls = append(calls, call(fmt.Sprintf("c%d-%d", n, i), []string{"fine", "boom", "other"}[i%3], fmt.Sprintf(`{"n":%d,"i":%d}`, n, i)))
		}
		return say(emit, "", "", calls...)
	})
	w.agent.MaxRounds = rounds + 1
	w.agent.MaxContextTokens = run.NoWindow
	echo := func(_ context.Context, c tool.Call) handlers.ToolOutcome {
		return handlers.ToolOutcome{Success: true, Output: string(c.Arguments)}
	}
	w.tools.define("fine", tool.ReadOnly, echo)
	w.tools.define("other", tool.ReadOnly, echo)
	w.tools.define("boom", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome { panic("x") })
	w.start("w1")
	if s := w.over(w.post("Go.")); s.Answer != "Done." {
		t.Fatalf("%s %s", s.ErrorCode, s.Error)
	}
	m := w.model.request(rounds + 1).Messages
	results := 0
	for i := range m {
		for k, c := range m[i].Calls {
			r := m[i+1+k]
			want := c.Arguments
			if c.Name == "boom" {
				want = "Error: an internal error"
			}
			if r.CallID != c.ID || !strings.HasPrefix(r.Content, want) {
				t.Fatalf("%s: %+v", c.ID, r)
			}
			results++
		}
	}
	if results != rounds*run.MaxCalls {
		t.Fatalf("%d results", results)
	}
}

// appends counts the appends to runs.
type appends struct {
	event.Store
	n atomic.Int64
}

func (a *appends) Append(ctx context.Context, s event.Stream, e event.Expect, facts ...event.New) (event.Appended, error) {
	if s.Category == run.Category {
		a.n.Add(1)
	}
	return a.Store.Append(ctx, s, e, facts...)
}

// Reports and the claims that follow from them share an append, so a round costs
// two.
func TestARoundCostsTwoAppends(t *testing.T) {
	cost := func(rounds int) int64 {
		w := newWorld(t, func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
			if n > rounds {
				return say(emit, "", "Done.")
			}
			return say(emit, "", "", call("", "now", fmt.Sprintf(`{"n":%d}`, n)))
		})
		w.tools.define("now", tool.ReadOnly, output("noon"))
		counted := &appends{Store: w.store}
		w.start("w1", func(r *handlers.Runner) {
			r.Store, r.Commands = counted, commands.New(counted, w, w.clock.Now, w.ids.next("run-"))
		})
		w.over(w.post("Go."))
		return counted.n.Load()
	}
	if one, four := cost(1), cost(4); four-one != 2*3 {
		t.Errorf("one round costs %d appends, four cost %d", one, four)
	}
}
