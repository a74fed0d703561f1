package e2e

import (
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestClientLeaves (P39): the run belongs to the server.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, held(gate, []string{"One ", "two "}, []string{"three."}))
	id := l.session(t)
	r := l.chat(t, id, "q")
	r.until(t, isAnswer("two "))
	r.close()
	if m := l.message(t, id, r.run()); m.Completed || m.Outcome != "" || m.Content != "" {
		t.Errorf("a message in the making: %+v", m)
	}
	close(gate)
	frames := l.watch(t, id, r.run(), "").rest(t)
	checkFeed(t, frames)
	if m := l.message(t, id, r.run()); m.Content != "One two three." || m.Outcome != "completed" || shown(frames, "answer") != m.Content {
		t.Errorf("stored %+v, shown %q", m, shown(frames, "answer"))
	}
}

// TestStop: a stop keeps what was shown, ends every stream with the same single
// terminal frame, and the next turn works. The client may have left before.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		gate := make(chan struct{})
		l := newLab(t, nil, held(gate, []string{"One ", "two "}, []string{"three."}))
		id := l.session(t)
		r := l.chat(t, id, "q")
		head := r.until(t, isAnswer("two "))
		if leaves {
			r.close()
			r = l.watch(t, id, r.run(), head[len(head)-1].id)
		}
		other := l.watch(t, id, head[0].Data["assistant_message_id"].(string), "")
		run := head[0].text("assistant_message_id")
		l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": run}).
			same(t, 200, `{"success":true,"message":"Generation stopped"}`)
		frames := append(head, r.rest(t)...)
		checkFeed(t, frames)
		last := frames[len(frames)-1]
		if last.Type != "stop" || last.text("reason") != "user_requested" || last.text("message_id") != run || last.text("outcome") != "stopped" ||
			last.Content != "Generation stopped by user" {
			t.Errorf("ended with %s", last.raw)
		}
		if got := wire(other.rest(t)); got != wire(frames) {
			t.Errorf("another reader saw:\n%s", firstDiff(wire(frames), got))
		}
		if m := l.message(t, id, run); m.Content != "One two " || m.Outcome != "stopped" || m.EndReason != "user" || !m.Completed {
			t.Errorf("stored %+v", m)
		}
		l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": run}).
			same(t, 200, `{"success":true,"message":"Message already completed"}`)
		close(gate)
		l.model.Push(say("Next."))
		next := l.chat(t, id, "and now?").rest(t)
		if shown(next, "answer") != "Next." {
			t.Errorf("the next turn: %s", wire(next))
		}
	}
}

// TestStopInTool: a stop while a tool runs closes its call in the feed.
func TestStopInTool(t *testing.T) {
	t.Parallel()
	x := newTrap(t)
	l := newLab(t, func(s *settings) { s.Gate = x.path }, scripted.Say(call("c1", "ledger_append", `{"line":"L"}`)))
	id := l.session(t)
	r := l.chat(t, id, "q")
	x.caught(t, "before L")
	l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": r.run()}).same(t, 200, `{"success":true,"message":"Generation stopped"}`)
	frames := r.rest(t)
	checkFeed(t, frames)
	if frames[len(frames)-1].Type != "stop" {
		t.Errorf("ended with %s", frames[len(frames)-1].raw)
	}
	x.gone(t) // the tool's context has ended: it had not begun
	if n := count(t, l.s.Ledger)["L"]; n != 0 {
		t.Errorf("the ledger has the line %d times", n)
	}
	l.model.Push(say("Next."))
	if next := l.chat(t, id, "and now?").rest(t); shown(next, "answer") != "Next." {
		t.Errorf("the next turn: %s", wire(next))
	}
}

// TestTerm: SIGTERM in the middle of an answer, and of a read-only tool; the
// next server goes on.
func TestTerm(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One ", "two "}, nil))
	id := l.session(t)
	r := l.chat(t, id, "q")
	frames := r.until(t, isAnswer("two "))
	if code := l.p.term(t); code != 0 {
		t.Errorf("exit %d\n%s", code, l.p.log)
	}
	for {
		f, err := r.next()
		if err != nil {
			break // the stream ends without a terminal frame: the reader comes back
		}
		frames = append(frames, f)
	}
	l.model.Push(say("All ", "of ", "it."))
	l.up(t)
	frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
	checkFeed(t, frames)
	if got := wire(l.watch(t, id, r.run(), "").rest(t)); got != wire(frames) {
		t.Errorf("a fresh reader sees:\n%s", firstDiff(wire(frames), got))
	}
	m := l.message(t, id, r.run())
	if m.Content != "All of it." || m.Outcome != "completed" || shown(frames, "answer") != m.Content || !strings.Contains(wire(frames), `"reason":"recovered"`) {
		t.Errorf("stored %+v, feed:\n%s", m, wire(frames))
	}
}
