package e2e

import (
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestQuietStreamLives (P88): timeouts of the server that are much shorter than
// the pause in an answer cut nobody, and comments come meanwhile.
func TestQuietStreamLives(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, func(s *settings) { s.Heartbeat, s.Write, s.Read = 100, 1000, 400 }, held(gate, []string{"One "}, []string{"two."}))
	id := l.session(t)
	chat := l.chat(t, id, "q")
	chat.until(t, isAnswer("One "))
	readers := map[string]*reader{"agent-chat": chat, "continue-stream": l.watch(t, id, chat.run(), ""),
		"events": l.open(t, "/api/v1/sessions/"+id+"/events", "")}
	for name, r := range readers {
		for n := 0; n < 15; { // 1.5 s
			f, err := r.any()
			if err != nil {
				t.Fatalf("%s was cut after %d heartbeats: %v", name, n, err)
			}
			if f.comment {
				n++
			}
		}
	}
	close(gate)
	for name, r := range readers {
		frames := r.until(t, frame.terminal)
		if last := frames[len(frames)-1]; last.Type != "complete" {
			t.Errorf("%s ended with %s", name, last.raw)
		}
	}
	if rest := readers["continue-stream"].rest(t); len(rest) > 0 {
		t.Errorf("after the terminal frame:\n%s", wire(rest))
	}
	if rest := chat.rest(t); len(rest) > 0 {
		t.Errorf("after the terminal frame:\n%s", wire(rest))
	}
}

// TestHeaders: the headers that browsers and proxies need.
func TestHeaders(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("Hi."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	for name, want := range map[string]string{"Content-Type": "text/event-stream;charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
		if got := r.head.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !uuidForm.MatchString(r.run()) {
		t.Errorf("X-Refold-Run: %q", r.run())
	}
	checkFeed(t, r.rest(t))
}

// TestSuperseded: text before a call, and text of an attempt that broke off
// (P36), do not count; what counts is shown and stored once.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	half := func(r scripted.Request) scripted.Reply {
		parts := scripted.Chunks(r.Model, scripted.Reasoning("Hm."), scripted.Text("The answer "), scripted.Text("is"))
		return scripted.Reply{Parts: append(parts[:len(parts)-2:len(parts)-2], scripted.Reset())}
	}
	l := newLab(t, nil,
		scripted.Say(append(words("I will ", "look."), call("c1", "look", `{"at":"x"}`))...),
		half, say("The answer ", "is ", "42."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	frames := r.rest(t)
	checkFeed(t, frames)
	var reasons []string
	blocks := map[string]bool{}
	for _, f := range frames {
		if f.Data["superseded"] == true {
			reasons = append(reasons, f.Type+" "+f.text("reason"))
			if f.Content != "" || f.Done || !blocks[f.text("event_id")] {
				t.Errorf("a superseding frame of a wrong form: %s", f.raw)
			}
		}
		blocks[f.text("event_id")] = true
	}
	if got := strings.Join(reasons, ", "); got != "answer preamble, thinking retry, answer retry" {
		t.Errorf("superseded: %s", got)
	}
	m := l.message(t, id, r.run())
	if got := shown(frames, "answer"); got != "The answer is 42." || m.Content != got {
		t.Errorf("shown %q, stored %q", got, m.Content)
	}
	if shown(frames, "thinking") != "" {
		t.Errorf("the thinking of the failed attempt is still shown: %q", shown(frames, "thinking"))
	}
	if len(m.Steps) == 0 || m.Steps[0].Thought != "I will look." {
		t.Errorf("the preamble is not the step's thought: %+v", m.Steps)
	}
}

// TestTerminalThenMessage: who has the terminal frame reads the same outcome and
// text at once.
func TestTerminalThenMessage(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(func(r scripted.Request) scripted.Reply {
		if strings.Contains(r.Last("user"), "fail") {
			return scripted.Fail(401, "no such key")(r)
		}
		return scripted.Say(append(words("Yes, ", "done."), scripted.Usage(3, 4, 7))...)(r)
	})
	id := l.session(t)
	for i := range 30 {
		query := "ok"
		if i%3 == 2 {
			query = "fail"
		}
		r := l.chat(t, id, query)
		frames := r.until(t, frame.terminal)
		m := l.message(t, id, r.run())
		last := frames[len(frames)-1]
		if m.Outcome != last.text("outcome") || m.EndReason != last.text("end_reason") || !m.Completed || last.text("run_id") != r.run() ||
			m.Content != shown(frames, "answer") {
			t.Fatalf("run %d: terminal %s, message %+v", i, last.raw, m)
		}
		if query == "ok" && (last.Usage["total_tokens"] != 7.0 || m.Usage == nil || m.Usage.Total != 7) {
			t.Errorf("usage: frame %v, message %v", last.Usage, m.Usage)
		}
		if query == "fail" && (m.Error == nil || m.Error.Code != "unauthorized" || last.text("code") != "unauthorized") {
			t.Errorf("error: frame %s, message %+v", last.raw, m.Error)
		}
	}
}

// TestFailureAfterHeaders (P91): whatever breaks, there is exactly one terminal
// frame, it has no internals, and the record says the same.
func TestFailureAfterHeaders(t *testing.T) {
	t.Parallel()
	twoThenError := scripted.Stream(scripted.Join(
		scripted.Chunks("scripted", words("a", "b")...)[:3],
		[]scripted.Part{scripted.Data(`{"error":{"message":"the engine broke","type":"server_error","code":400}}`), scripted.Done()})...)
	for _, c := range []struct {
		name           string
		steps          []scripted.Step
		terminal, code string
	}{
		{"before the first delta", []scripted.Step{scripted.Fail(403, "not for you")}, "error", ""},
		{"HTML", []scripted.Step{scripted.Respond(200, map[string]string{"Content-Type": "text/html"}, "<html>Welcome</html>")}, "error", ""},
		{"after two deltas", []scripted.Step{twoThenError, twoThenError, twoThenError}, "error", ""},
		{"breaks off three times", []scripted.Step{cut("x", "y"), cut("x", "y"), cut("x", "y")}, "error", ""},
		{"a tool panics", []scripted.Step{scripted.Say(call("c", "look", `{"at":"panic"}`)), say("It broke.")}, "complete", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil, c.steps...)
			id := l.session(t)
			r := l.chat(t, id, "q")
			frames := r.rest(t)
			checkFeed(t, frames)
			last := frames[len(frames)-1]
			if last.Type != c.terminal {
				t.Errorf("ended with %s", last.raw)
			}
			for _, secret := range []string{"secret-of-the-tool", "goroutine", ".go:", "/v1/chat"} {
				if strings.Contains(wire(frames), secret) {
					t.Errorf("the feed shows %q:\n%s", secret, wire(frames))
				}
			}
			if again := wire(l.watch(t, id, r.run(), "").rest(t)); again != wire(frames) {
				t.Errorf("the record differs:\n%s", firstDiff(wire(frames), again))
			}
			m := l.message(t, id, r.run())
			if m.Outcome != last.text("outcome") || c.terminal == "error" && (m.Error == nil || m.Error.Message != last.Content) {
				t.Errorf("message %+v, terminal %s", m, last.raw)
			}
		})
	}
}

// cut is a reply that breaks off without a finish.
func cut(list ...string) scripted.Step {
	return func(r scripted.Request) scripted.Reply {
		parts := scripted.Chunks(r.Model, words(list...)...)
		return scripted.Reply{Parts: append(parts[:len(parts)-2:len(parts)-2], scripted.Reset())}
	}
}

// TestSessionFeed: the feed of a session shows its runs one after another and
// goes on with those that come later.
func TestSessionFeed(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Fine."))
	id := l.session(t)
	events := "/api/v1/sessions/" + id + "/events"
	if frames := l.open(t, events+"?follow=0", "").rest(t); len(frames) > 0 {
		t.Errorf("a session without runs shows:\n%s", wire(frames))
	}
	feed := l.open(t, events, "")
	var want string
	var firsts []string
	for range 3 {
		frames := l.chat(t, id, "q").rest(t)
		want += wire(frames)
		firsts = append(firsts, frames[0].id)
		if got := feed.until(t, frame.terminal); wire(got) != wire(frames) {
			t.Errorf("the session's feed differs:\n%s", firstDiff(wire(frames), wire(got)))
		}
	}
	if got := wire(l.open(t, events+"?follow=false", "").rest(t)); got != want {
		t.Errorf("from the start:\n%s", firstDiff(want, got))
	}
	after := l.open(t, events+"?follow=false", firsts[1]).rest(t)
	if got := wire(after); !strings.HasSuffix(want, got) || len(got) == 0 || strings.Count(got, `"agent_query"`) != 1 {
		t.Errorf("after the first frame of the second run:\n%s", got)
	}
	if byQuery := wire(l.open(t, events+"?follow=false&after="+firsts[1], "").rest(t)); byQuery != wire(after) {
		t.Errorf("?after= differs from Last-Event-ID:\n%s", firstDiff(wire(after), byQuery))
	}
}
