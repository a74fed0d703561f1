package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scenario"
)

// mortal is a store as one process sees it: with the k-th append the process
// dies. The append is durable; whether the process still hears that, silent
// says. Nothing works afterwards.
type mortal struct {
	event.Store
	silent bool // the append is written, and yet fails for the process

	mu   sync.Mutex
	left int
	died chan struct{}
}

var errDead = fmt.Errorf("%w: the process is dead", event.ErrUnavailable)

func (m *mortal) dead() bool {
	select {
	case <-m.died:
		return true
	default:
		return false
	}
}

func (m *mortal) Append(ctx context.Context, s event.Stream, e event.Expect, events ...event.New) (event.Appended, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead() {
		return event.Appended{}, errDead
	}
	a, err := m.Store.Append(ctx, s, e, events...)
	if err != nil {
		return a, err
	}
	if m.left--; m.left == 0 {
		close(m.died)
		if m.silent {
			return event.Appended{}, errDead
		}
	}
	return a, nil
}

func (m *mortal) Read(ctx context.Context, s event.Stream, after int64, limit int) ([]event.Raw, error) {
	if m.dead() {
		return nil, errDead
	}
	return m.Store.Read(ctx, s, after, limit)
}

func (m *mortal) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	if m.dead() {
		return nil, after, errDead
	}
	return m.Store.Scan(ctx, after, f, limit)
}

func (m *mortal) Trim(ctx context.Context, s ...event.Stream) error {
	if m.dead() {
		return errDead
	}
	return m.Store.Trim(ctx, s...)
}

// life runs a process until it dies, or until the run is over. It tells whether
// it died.
func (w *world) life(self, id string, k int, silent bool) bool {
	w.t.Helper()
	w.clock = newClock()
	m := &mortal{Store: w.store, silent: silent, left: k, died: make(chan struct{})}
	p := w.start(self, func(r *handlers.Runner) {
		r.Store, r.Clock = m, w.clock
		r.Commands = commands.New(m, w, w.clock.Now, w.ids.next(self+"-"))
	})
	over := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		defer close(over)
		for !w.state(id).Over() && ctx.Err() == nil {
			head, err := w.store.Head(ctx)
			if err != nil || w.state(id).Over() || w.store.Wait(ctx, head) != nil {
				return
			}
		}
	}()
	select {
	case <-m.died:
	case <-over:
	}
	w.kill(p)
	if !m.dead() && !w.state(id).Over() {
		w.t.Fatalf("the run does not end: %v", w.kinds(id))
	}
	return m.dead()
}

// person approves everything that is asked, from a process of their own.
func (w *world) person(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	var at event.Position
	_ = event.Follow(ctx, w.store, at, event.Filter{Categories: []string{run.Category}}, func(batch []event.Raw, _ event.Position) error {
		for _, raw := range batch {
			rec, err := event.Record(run.Codec, raw)
			if err != nil {
				return err
			}
			if a, ok := rec.Event.(run.ApprovalRequired); ok {
				// Refused if the run is over already.
				_, _ = w.ResolveApproval(ctx, w.caller(), commands.Decision{Run: raw.Stream.ID, Approval: a.Approval, Approve: true})
			}
		}
		return nil
	})
}

// essence is the log of a run without what a crash may change: attempts,
// claims, their losses, what a person was asked because of one, and ids (those
// that a lost attempt has shown to readers are not used again).
func essence(facts []run.Event) []string {
	var out []string
	recovery, names := map[string]bool{}, map[string]string{}
	put := func(e run.Event) {
		b, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%T %s", e, b))
	}
	for _, e := range facts {
		switch e := e.(type) {
		case run.ModelCallStarted, run.ModelCallFailed, run.ToolStarted, run.ToolOutcomeUnknown:
		case run.ApprovalRequired:
			if recovery[e.Approval] = e.Trigger == run.TriggerRecovery; !recovery[e.Approval] {
				e.Approval, e.Call = "", names[e.Call]
				put(e)
			}
		case run.ApprovalResolved:
			if !recovery[e.Approval] {
				e.Approval, e.Call = "", names[e.Call]
				put(e)
			}
		case run.Thought:
			if e.Call, e.Shown.Pending = 0, nil; e.Round > 0 {
				e.RequestDigest = "" // the ids of earlier calls are in the request
			}
			put(e)
		case run.ToolCallRequested:
			names[e.Call] = fmt.Sprintf("call %d.%d", e.Round, e.Index)
			e.Call = names[e.Call]
			put(e)
		case run.ToolCompleted:
			e.Attempt, e.Call = 0, names[e.Call]
			put(e)
		case run.RunCompleted:
			e.Call = 0
			put(e)
		default:
			put(e)
		}
	}
	return out
}

// crashes is a world whose run reads, changes the world, and asks first.
func crashes(t *testing.T) *world {
	w := newWorld(t, func(_ context.Context, _ int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		results := 0
		for _, m := range req.Messages {
			if m.Role == handlers.RoleTool {
				results++
			}
		}
		switch results {
		case 0:
			return say(emit, "hm", "Let me look.", call("c1", "now", "{}"), call("c2", "send", "{}"))
		case 2:
			return say(emit, "", "", call("c3", "pay", "{}"), call("c4", "save", "{}"))
		}
		return say(emit, "so", "Done.")
	})
	w.agent.ParallelTools = false
	w.tools.define("now", tool.ReadOnly, output("noon"))
	w.tools.define("send", tool.SideEffect, output("sent"))
	w.tools.define("pay", tool.SideEffect, output("paid"))
	w.tools.define("save", tool.Idempotent, output("saved"))
	w.tools.defs[2].Approval = true
	return w
}

func TestCrash_AfterEveryAppend(t *testing.T) {
	unbroken := crashes(t)
	reference := unbroken.post("Go.")
	stopped := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go unbroken.person(ctx, stopped)
	unbroken.life("w1", reference, 1<<30, false)
	cancel()
	<-stopped
	want := essence(unbroken.facts(reference))
	if n := len(want); n < 13 {
		t.Fatalf("the reference has %d facts", n)
	}
	recoveries := 0
	for _, silent := range []bool{false, true} {
		for k := 1; ; k++ {
			died := false
			t.Run(fmt.Sprintf("silent=%v/k=%d", silent, k), func(t *testing.T) {
				w := crashes(t)
				id := w.post("Go.")
				ctx, cancel := context.WithCancel(context.Background())
				stopped := make(chan struct{})
				go w.person(ctx, stopped)
				for life := 1; ; life++ {
					// The first two lives die at the k-th append, then one is spared.
					at := map[bool]int{true: k, false: 1 << 30}[life <= 2]
					dead := w.life(fmt.Sprintf("w%d", life), id, at, silent)
					died = died || dead
					if w.state(id).Over() {
						break
					}
					if !dead {
						t.Fatal("neither dead nor over")
					}
				}
				cancel()
				<-stopped
				w.checkAfterCrash(id, want)
				for _, a := range w.state(id).Approvals {
					if a.Trigger == run.TriggerRecovery {
						recoveries++
					}
				}
			})
			if !died || t.Failed() {
				break
			}
		}
	}
	if recoveries == 0 {
		t.Fatal("no process died in the middle of a tool that changes the world")
	}
}

func (w *world) checkAfterCrash(id string, want []string) {
	w.t.Helper()
	facts := w.facts(id)
	if d := scenario.Diff(want, essence(facts)); d != "" {
		w.t.Fatalf("the log differs from that of an unbroken run (- wanted, + got):\n%s", d)
	}
	// A tool that changes the world ran again only if a person said so.
	allowed := map[string]int{}
	asked := map[string]bool{}
	for _, e := range facts {
		switch e := e.(type) {
		case run.ToolCallRequested:
			if e.Name == "send" || e.Name == "pay" {
				allowed[e.Call] = 1
			}
		case run.ApprovalRequired:
			asked[e.Approval] = e.Trigger == run.TriggerRecovery
		case run.ApprovalResolved:
			if asked[e.Approval] && e.Outcome == run.Approved {
				allowed[e.Call]++
			}
		}
	}
	for call, n := range allowed {
		if ran := w.tools.runs(call); ran > n {
			w.t.Fatalf("%s ran %d times, allowed were %d", call, ran, n)
		}
	}
	// Every attempt of a call has the same key.
	keys := map[string]string{}
	for _, c := range w.tools.ran {
		if k, ok := keys[c.ID]; ok && k != c.IdempotencyKey {
			w.t.Fatalf("%s ran under two keys", c.ID)
		}
		keys[c.ID] = c.IdempotencyKey
	}
	s := w.state(id)
	transcript := s.Transcript()
	for i, m := range transcript {
		for k, c := range m.Calls {
			if transcript[i+1+k].CallID != c.ID {
				w.t.Fatalf("the transcript does not pair: %+v", transcript)
			}
		}
	}
	if !slices.Equal(w.kinds(id)[len(facts)-2:], []string{"Thought", "RunCompleted"}) {
		w.t.Fatalf("%v", w.kinds(id))
	}
}
