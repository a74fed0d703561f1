package e2e

import (
	"strings"
	"testing"

	"refold/tests/scripted"
)

// untitled opens a session without a title.
func (c client) untitled(t testing.TB) string {
	t.Helper()
	var s struct{ ID string }
	c.do(t, "POST", "/api/v1/sessions", nil).data(t, 201, &s)
	return s.ID
}

func (c client) titleOf(t testing.TB, session string) string {
	t.Helper()
	var s struct{ Title string }
	c.do(t, "GET", "/api/v1/sessions/"+session, nil).data(t, 200, &s)
	return s.Title
}

// TestTitle: the first run of a session without a title gives it one, by the
// model, in a frame after its terminal one, which is the same on every route,
// can be resumed from and to, and is there after a restart.
func TestTitle(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("It is ", "noon."), scripted.Say(scripted.Text("\"Time of day\"\n"), scripted.Usage(40, 4, 44)), say("Still noon."))
	id := l.untitled(t)
	chat := l.chat(t, id, "What time is it?")
	whole := chat.rest(t)
	title := whole[len(whole)-1]
	checkFeed(t, whole[:len(whole)-1])
	if title.Type != "session_title" || !title.Done || title.Content != "Time of day" || title.text("session_id") != id ||
		title.text("title") != "Time of day" || title.Request != whole[0].Request || title.id == "" {
		t.Fatalf("the last frame is %s %s", title.id, title.raw)
	}
	if got := l.titleOf(t, id); got != "Time of day" {
		t.Errorf("the session is called %q", got)
	}
	second := l.chat(t, id, "And now?")
	next := second.rest(t)
	checkFeed(t, next)
	asked := l.model.Requests()
	if len(asked) != 3 || !strings.Contains(asked[1].Last("user"), "What time is it?") || !strings.Contains(asked[1].Last("user"), "It is noon.") {
		t.Errorf("%d requests", len(asked))
	}
	all := append(append([]frame{}, whole...), next...)
	every := func(when string) {
		for path := range routes(id, chat.run()) {
			want, session := whole, strings.HasSuffix(path, "/events")
			if session {
				path, want = path+"?follow=false", all
			}
			if got := wire(l.open(t, path, "").rest(t)); got != wire(want) {
				t.Errorf("%s, %s from the start:\n%s", when, path, firstDiff(wire(want), got))
			}
			for i, f := range want {
				if got := wire(l.open(t, path, f.id).rest(t)); got != wire(want[i+1:]) {
					t.Errorf("%s, %s after frame %d:\n%s", when, path, i, firstDiff(wire(want[i+1:]), got))
				}
			}
		}
		// The title of another run is no place of this one.
		if got := l.open(t, continued(id, second.run()), title.id).rest(t); got[0].event != "resync" || wire(got[1:]) != wire(next) {
			t.Errorf("%s: %s", when, wire(got))
		}
	}
	every("live")
	if code := l.p.term(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	l.up(t)
	every("after a restart")
	if n := len(l.model.Requests()); n != 3 {
		t.Errorf("%d requests after the restart", n)
	}
}

// TestTitleLive: readers that are there when the title comes get the frame on
// every route.
func TestTitleLive(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, say("Answer."), held(gate, nil, []string{"Named late"}))
	id := l.untitled(t)
	chat := l.chat(t, id, "q")
	head := chat.until(t, frame.terminal)
	readers := map[string]*reader{}
	for path := range routes(id, chat.run()) {
		readers[path] = l.open(t, path, "")
		if got := wire(readers[path].must(t, len(head))); got != wire(head) {
			t.Errorf("%s:\n%s", path, firstDiff(wire(head), got))
		}
	}
	if _, err := l.model.Await(guarded(t), 2); err != nil {
		t.Fatal(err)
	}
	close(gate)
	want := chat.until(t, isType("session_title"))
	for path, r := range readers {
		if got := wire(r.until(t, isType("session_title"))); got != wire(want) {
			t.Errorf("%s:\n%s", path, firstDiff(wire(want), got))
		}
	}
}

// TestTitleLate: a title that comes after the next message stands after it in the
// session's feed, for those who are there and for those who come later, and after
// its own run in that run's stream.
func TestTitleLate(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, say("One."), held(gate, nil, []string{"Late name"}), say("Two."))
	id := l.untitled(t)
	chat := l.chat(t, id, "q")
	one := chat.until(t, frame.terminal)
	if _, err := l.model.Await(guarded(t), 2); err != nil {
		t.Fatal(err)
	}
	feed := l.open(t, "/api/v1/sessions/"+id+"/events", "")
	two := l.chat(t, id, "q").rest(t)
	checkFeed(t, two)
	close(gate)
	live := feed.until(t, isType("session_title"))
	title := live[len(live)-1]
	want := append(append(append([]frame{}, one...), two...), title)
	if wire(live) != wire(want) {
		t.Errorf("live:\n%s", firstDiff(wire(want), wire(live)))
	}
	for i, f := range want {
		if got := l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", f.id).rest(t); wire(got) != wire(want[i+1:]) {
			t.Errorf("after frame %d:\n%s", i, firstDiff(wire(want[i+1:]), wire(got)))
		}
	}
	if got := l.watch(t, id, chat.run(), "").rest(t); wire(got) != wire(append(one, title)) {
		t.Errorf("the run's own stream:\n%s", wire(got))
	}
}

// TestTitleNotMade (46): a run that is told so, that failed or that was stopped
// gives no title, and its stream is closed with its terminal frame.
func TestTitleNotMade(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, say("One."), scripted.Fail(401, "no"), held(gate, []string{"Half"}, nil), say("Three."), say("The name"))
	id := l.untitled(t)
	for _, route := range []map[string]any{{"query": "q", "disable_title": true}, {"query": "q"}} {
		frames := l.chatWith(t, id, route).rest(t)
		checkFeed(t, frames)
	}
	r := l.chat(t, id, "q")
	r.until(t, isAnswer("Half"))
	l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": r.run()})
	r.rest(t)
	if n, title := len(l.model.Requests()), l.titleOf(t, id); n != 3 || title != "" {
		t.Errorf("%d requests, title %q", n, title)
	}
	frames := l.chat(t, id, "q").rest(t)
	if last := frames[len(frames)-1]; last.Content != "The name" || l.titleOf(t, id) != "The name" {
		t.Errorf("ended with %s", last.raw)
	}
}

// TestTitleWithoutModel: a model that fails, or that can only quote, costs no
// run anything: the title is cut from the question.
func TestTitleWithoutModel(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("One."), scripted.Fail(500, "down"))
	id := l.untitled(t)
	frames := l.chat(t, id, "  How is\tit?\nSecond line").rest(t)
	if last := frames[len(frames)-1]; last.Content != "How is it?" {
		t.Errorf("ended with %s", last.raw)
	}
	l = newLab(t, func(s *settings) { s.ModelURL = "" })
	id = l.untitled(t)
	long := "恢复备份" + strings.Repeat("要多久", 40)
	frames = l.chat(t, id, long).rest(t)
	if last := frames[len(frames)-1]; last.Type != "session_title" || !strings.HasPrefix(last.Content, "恢复备份要多久") || len([]rune(last.Content)) > 60 {
		t.Errorf("ended with %s", last.raw)
	}
}

// TestTitleSurvives (45, 57): the stream does not wait for ever, and a title
// whose process was killed in the middle is made by the next one.
func TestTitleSurvives(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, say("One."), held(gate, nil, []string{"never"}), say("Second try"))
	id := l.untitled(t)
	chat := l.chat(t, id, "q")
	frames := chat.rest(t) // closed though the title has not come
	checkFeed(t, frames)
	if _, err := l.model.Await(guarded(t), 2); err != nil {
		t.Fatal(err)
	}
	l.p.kill(t)
	l.up(t)
	feed := l.open(t, "/api/v1/sessions/"+id+"/events", frames[len(frames)-1].id)
	title := feed.must(t, 1)[0]
	if title.Type != "session_title" || title.Content != "Second try" {
		t.Fatalf("after the restart: %s", title.raw)
	}
	rest := l.watch(t, id, chat.run(), frames[len(frames)-1].id).rest(t)
	if wire(rest) != wire([]frame{title}) {
		t.Errorf("on the run's own stream:\n%s", wire(rest))
	}
	if n := len(l.model.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// TestGenerateTitle: a title that somebody asks for.
func TestGenerateTitle(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("# Backups at night."))
	id := l.session(t)
	path := "/api/v1/sessions/" + id + "/generate_title"
	l.do(t, "POST", path, map[string]any{"messages": []any{map[string]any{"role": "user", "content": "When are backups made?"},
		map[string]any{"role": "assistant", "content": "At two."}}}).same(t, 200, `{"success":true,"data":"Backups at night"}`)
	if got := l.titleOf(t, id); got != "Backups at night" {
		t.Errorf("the session is called %q", got)
	}
	l.do(t, "POST", path, map[string]any{"messages": []any{}}).refused(t, 400, 1000, "bad_request", "messages")
	l.do(t, "POST", "/api/v1/sessions/none/generate_title", map[string]any{"messages": []any{map[string]any{"role": "user", "content": "x"}}}).
		refused(t, 404, 1003, "session_not_found", "no such session")
}
