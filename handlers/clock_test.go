package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
)

// jump sets the clock, as somebody does to the machine's: what waits goes on
// waiting for as long as before.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		t.at = t.at.Add(d)
	}
}

// TestClockJumps: the clock is set by a day, in either direction, while a model
// streams, while a tool works, and between rounds. The run goes on and ends; what
// is in progress is not begun again.
func TestClockJumps(t *testing.T) {
	for name, d := range map[string]time.Duration{"forward": 24 * time.Hour, "back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			var w *world
			streaming, stream := make(chan struct{}), make(chan struct{})
			working, work := make(chan struct{}), make(chan struct{})
			w = newWorld(t, func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
				switch n {
				case 1:
					if err := emit(handlers.ModelDelta{Content: "Let "}); err != nil {
						return handlers.ModelReply{}, err
					}
					close(streaming)
					<-stream
					return say(emit, "", "", call("c1", "pay", "{}"))
				case 2:
					return handlers.ModelReply{}, &handlers.ModelError{Code: "connection", Message: "reset", Transient: true}
				}
				return say(emit, "", "Done.")
			})
			w.tools.define("pay", tool.SideEffect, func(context.Context, tool.Call) handlers.ToolOutcome {
				close(working)
				<-work
				return handlers.ToolOutcome{Success: true, Output: "paid", Full: "paid"}
			})
			p := w.start("w1")
			id := w.post("Pay.")
			look := func() { p.Wake(handlers.OpenRun{Tenant: tenant, Session: w.session, Run: id}) }
			<-streaming
			w.clock.jump(d)
			look()
			close(stream)
			<-working
			w.clock.jump(d)
			look()
			close(work)
			has[run.ToolCompleted](w, id)
			w.clock.jump(-2 * d)
			look()
			w.await("the second attempt", func() bool { w.clock.advance(time.Second); return w.state(id).Over() || w.model.count() > 2 })
			s := w.over(id)
			kinds := strings.Join(w.kinds(id), " ")
			if s.Answer != "Done." || w.tools.runs("c1") != 1 || strings.Contains(kinds, "Unknown") || strings.Contains(kinds, "Approval") || w.model.count() != 3 {
				t.Fatalf("%d model calls, the tool ran %d times: %s\n%+v", w.model.count(), w.tools.runs("c1"), kinds, s)
			}
			if failed := has[run.ModelCallFailed](w, id); failed.Code == run.CodeLost {
				t.Fatalf("%+v", failed)
			}
		})
	}
}
