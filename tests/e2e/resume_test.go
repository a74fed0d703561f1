package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// routes are all ways to read one run; end tells whether the server closes the
// stream after the terminal frame.
func routes(session, run string) map[string]bool {
	events := "/api/v1/sessions/" + session + "/events"
	return map[string]bool{continued(session, run): true, events: false, events + "?message_id=" + url.QueryEscape(run): true}
}

// toEnd reads to the terminal frame, and to the end of the stream if it closes.
func (r *reader) toEnd(t testing.TB, closes bool) []frame {
	t.Helper()
	frames := r.until(t, frame.terminal)
	if closes {
		frames = append(frames, r.rest(t)...)
	}
	r.close()
	return frames
}

// TestResumeEverywhere (P89): after every frame id, on every route, in
// mid-sentence and in mid-call while the run goes on, after its end and after a
// restart, what follows is exactly the rest.
func TestResumeEverywhere(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil,
		scripted.Say(scripted.Reasoning("First "), scripted.Reasoning("think."), scripted.Text("I look "), scripted.Text("now."),
			call("c1", "look", `{"at":"x"}`), call("c2", "look", `{"at":"fail"}`), call("c3", "thinking", `{"thought":"A thought with 字, of some length.","next_thought_needed":false,"thought_number":1,"total_thoughts":1}`)),
		cut("Half ", "an ans"),
		scripted.Say(scripted.Reasoning("Then "), scripted.Reasoning("more."), scripted.Text("The "), scripted.Text("answer 答"), scripted.Gate(gate),
			scripted.Text("案 "), scripted.Text("is "), scripted.Text("42 <b>&."), scripted.Usage(1, 2, 3)))
	id := l.session(t)
	chat := l.chat(t, id, "q")
	head := chat.until(t, isAnswer("answer 答"))
	run := chat.run()

	// While it goes on: one reader per place and route; each gets what is known,
	// and waits for the rest.
	type waiting struct {
		path   string
		closes bool
		at     int
		r      *reader
	}
	var all []waiting
	for path, closes := range routes(id, run) {
		for i, f := range head {
			r := l.open(t, path, f.id)
			if got, want := wire(r.must(t, len(head)-i-1)), wire(head[i+1:]); got != want {
				t.Errorf("%s after frame %d:\n%s", path, i, firstDiff(want, got))
			}
			all = append(all, waiting{path, closes, i, r})
		}
	}
	close(gate)
	whole := append(head, chat.rest(t)...)
	checkFeed(t, whole)
	if len(whole) < 25 {
		t.Errorf("only %d frames", len(whole))
	}
	for _, w := range all {
		if got, want := wire(w.r.toEnd(t, w.closes)), wire(whole[len(head):]); got != want {
			t.Errorf("%s after frame %d, the rest:\n%s", w.path, w.at, firstDiff(want, got))
		}
	}
	every := func(when string) {
		for path, closes := range routes(id, run) {
			if got := wire(l.open(t, path, "").toEnd(t, closes)); got != wire(whole) {
				t.Errorf("%s, %s from the start:\n%s", when, path, firstDiff(wire(whole), got))
			}
			for i, f := range whole {
				if i == len(whole)-1 {
					break
				}
				if got, want := wire(l.open(t, path, f.id).toEnd(t, closes)), wire(whole[i+1:]); got != want {
					t.Errorf("%s, %s after frame %d:\n%s", when, path, i, firstDiff(want, got))
				}
			}
			if closes {
				if rest := l.open(t, path, whole[len(whole)-1].id).rest(t); len(rest) > 0 {
					t.Errorf("%s, %s after the last frame:\n%s", when, path, wire(rest))
				}
			}
		}
	}
	every("after the end")
	if code := l.p.term(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	l.up(t)
	every("after a restart")
}

// TestResync: an id that is of no place in the stream is told so first, and all
// follows from the start.
func TestResync(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("A ", "b."))
	id, other := l.session(t), l.session(t)
	r := l.chat(t, id, "q")
	whole := r.rest(t)
	foreign := l.chat(t, other, "q").rest(t)
	last := whole[len(whole)-1].id
	at, _, _ := strings.Cut(whole[0].id, ".")
	for _, bad := range []string{"garbage", at + ".99", at, at + ".-1", at + ".00", "9" + last, foreign[1].id, foreign[len(foreign)-1].id, strings.Repeat("9", 500), "'; DROP TABLE events; --"} {
		for path, closes := range routes(id, r.run()) {
			frames := l.open(t, path, bad).toEnd(t, closes)
			if frames[0].event != "resync" || frames[0].id != "" || frames[0].text("reason") != "" {
				t.Errorf("%s after %q begins with %s %s", path, bad, frames[0].event, frames[0].raw)
			}
			if !strings.Contains(frames[0].raw, `"reason":`) {
				t.Errorf("resync without a reason: %s", frames[0].raw)
			}
			if got := wire(frames[1:]); got != wire(whole) {
				t.Errorf("%s after %q:\n%s", path, bad, firstDiff(wire(whole), got))
			}
		}
	}
}

// TestManyReaders: readers that come and go at random places while the frames
// are made see each frame once, in order.
func TestManyReaders(t *testing.T) {
	const pieces, readers = 120, 12
	step := make(chan struct{})
	parts := func(r scripted.Request) scripted.Reply {
		var list []scripted.Delta
		for i := range pieces {
			list = append(list, scripted.Gate(step), scripted.Text(fmt.Sprintf("w%d ", i)))
		}
		return scripted.Reply{Parts: scripted.Chunks(r.Model, list...)}
	}
	l := newLab(t, nil, parts)
	id := l.session(t)
	chat := l.chat(t, id, "q")
	got := make([]chan []frame, readers)
	for n := range readers {
		got[n] = make(chan []frame, 1)
		go func() {
			defer close(got[n])
			var mine []frame
			for {
				last := ""
				if len(mine) > 0 {
					last = mine[len(mine)-1].id
				}
				r, err := l.read(guarded(t), continued(id, chat.run()), last)
				if err != nil {
					t.Error(err)
					return
				}
				for k := 0; k <= n; k++ { // leaves after n+1 frames and comes back
					f, err := r.next()
					if err != nil {
						t.Errorf("reader %d after %d frames: %v", n, len(mine), err)
						r.close()
						return
					}
					mine = append(mine, f)
					if f.terminal() {
						r.close()
						got[n] <- mine
						return
					}
				}
				r.close()
			}
		}()
	}
	go func() {
		for range pieces {
			select {
			case step <- struct{}{}:
			case <-t.Context().Done():
			}
		}
	}()
	whole := chat.rest(t)
	checkFeed(t, whole)
	for n := range readers {
		if mine := <-got[n]; wire(mine) != wire(whole) {
			t.Errorf("reader %d:\n%s", n, firstDiff(wire(whole), wire(mine)))
		}
	}
}
