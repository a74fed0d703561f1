package e2e

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func (c client) listed(t testing.TB, query string) (titles []string) {
	t.Helper()
	var rows []struct{ Title string }
	c.do(t, "GET", "/api/v1/sessions?"+query, nil).data(t, 200, &rows)
	for _, r := range rows {
		titles = append(titles, r.Title)
	}
	return titles
}

// titled opens a session with a title.
func (c client) titled(t testing.TB, title, description string) string {
	t.Helper()
	var s struct{ ID string }
	c.do(t, "POST", "/api/v1/sessions", map[string]any{"title": title, "description": description}).data(t, 201, &s)
	return s.ID
}

// TestSessionListOrderAndKeyword: pinned first, then by change; a keyword looks
// in title, description and first question; cursors keep working.
func TestSessionListOrderAndKeyword(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	a, b := l.titled(t, "Alpha", "Über Gärten"), l.titled(t, "Beta 100%_", "")
	c := l.titled(t, "Gamma", "")
	check := func(query, want string) {
		t.Helper()
		if got := strings.Join(l.listed(t, query), " "); got != want {
			t.Errorf("?%s lists %s, not %s", query, got, want)
		}
	}
	check("", "Gamma Beta 100%_ Alpha")
	for range 2 { // again changes nothing
		l.do(t, "POST", "/api/v1/sessions/"+a+"/pin", nil).same(t, 200, `{"success":true,"is_pinned":true}`)
	}
	l.do(t, "POST", "/api/v1/sessions/"+b+"/pin", "").same(t, 200, `{"success":true,"is_pinned":true}`)
	check("", "Beta 100%_ Alpha Gamma")
	var s struct {
		IsPinned bool   `json:"is_pinned"`
		PinnedAt string `json:"pinned_at"`
	}
	l.do(t, "GET", "/api/v1/sessions/"+a, nil).data(t, 200, &s)
	if !s.IsPinned || s.PinnedAt == "" {
		t.Errorf("%+v", s)
	}
	l.do(t, "DELETE", "/api/v1/sessions/"+b+"/pin", nil).same(t, 200, `{"success":true,"is_pinned":false}`)
	check("", "Alpha Gamma Beta 100%_")
	l.do(t, "POST", "/api/v1/sessions/none/pin", nil).refused(t, 404, 1003, "session_not_found", "no such session")

	l.chatWith(t, c, map[string]any{"query": "Wie geht 数据备份?", "channel": "api"}).rest(t)
	l.chatWith(t, c, map[string]any{"query": "second", "channel": "api"}).rest(t)
	for query, want := range map[string]string{"keyword=ALPH": "Alpha", "keyword=gärt": "Alpha", "keyword=" + url.QueryEscape("备份"): "Gamma",
		"keyword=second": "", "keyword=%25_": "Beta 100%_", "keyword=%20": "Alpha Gamma Beta 100%_", "source=api": "Gamma", "source=web": "Alpha Beta 100%_",
		"agent_id=builtin-smart-reasoning": "Gamma", "keyword=a&source=web": "Alpha Beta 100%_", "agent_id=x": ""} {
		check(query, want)
	}
	l.do(t, "GET", "/api/v1/sessions?keyword="+strings.Repeat("k", 201), nil).refused(t, 400, 1000, "bad_request", "keyword")
	var page struct {
		Data []struct{ Title string }
		Next string `json:"next_cursor"`
	}
	var walked []string
	for path := "/api/v1/sessions?page_size=1"; ; path = "/api/v1/sessions?page_size=1&cursor=" + url.QueryEscape(page.Next) {
		page.Next = ""
		if err := json.Unmarshal([]byte(l.do(t, "GET", path, nil).body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Data {
			walked = append(walked, r.Title)
		}
		if page.Next == "" {
			break
		}
	}
	if got := strings.Join(walked, " "); got != "Alpha Gamma Beta 100%_" {
		t.Errorf("walked %s", got)
	}
}

// TestBatchDelete: unknown ids are passed over; 404 only if none exists.
func TestBatchDelete(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	a, b := l.titled(t, "A", ""), l.titled(t, "B", "")
	l.titled(t, "C", "")
	batch := func(in any) answer { return l.do(t, "DELETE", "/api/v1/sessions/batch", in) }
	batch(nil).refused(t, 400, 1000, "bad_request", "ids")
	batch(map[string]any{"ids": []string{}}).refused(t, 400, 1000, "bad_request", "ids")
	batch(map[string]any{"ids": []string{"none", "", strings.Repeat("x", 500)}}).refused(t, 404, 1003, "not_found", "none of these")
	batch(map[string]any{"ids": make([]string, 1001)}).refused(t, 400, 1000, "bad_request", "1000")
	batch(map[string]any{"ids": []string{a, "none", b, a}}).same(t, 200, `{"success":true,"message":"Sessions deleted"}`)
	if got := l.listed(t, ""); len(got) != 1 || got[0] != "C" {
		t.Errorf("left: %v", got)
	}
	batch(map[string]any{"delete_all": true}).same(t, 200, `{"success":true,"message":"Sessions deleted"}`)
	if got := l.listed(t, ""); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestClear: a run in progress is stopped, nothing of the past is shown or sent
// any more, and the record has it still.
func TestClear(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, say("First answer."), held(gate, []string{"Half"}, nil), say("Third answer."))
	id := l.session(t)
	first := l.chat(t, id, "first question")
	first.rest(t)
	second := l.chat(t, id, "second question")
	second.until(t, isAnswer("Half"))
	feed := l.open(t, "/api/v1/sessions/"+id+"/events", "")
	feed.until(t, isAnswer("Half"))
	l.do(t, "DELETE", "/api/v1/sessions/"+id+"/messages", nil).same(t, 200, `{"success":true,"message":"Messages cleared"}`)
	frames := second.rest(t)
	if last := frames[len(frames)-1]; last.Type != "stop" || last.text("reason") != "messages_cleared" {
		t.Errorf("ended with %s", last.raw)
	}
	if got := l.messages(t, id); len(got) != 0 {
		t.Errorf("%d messages are left", len(got))
	}
	l.do(t, "GET", continued(id, first.run()), nil).refused(t, 404, 1003, "not_found", "no such message")
	third := l.chat(t, id, "third question").rest(t)
	asked := l.model.Requests()[2]
	if body := string(asked.Body); strings.Contains(body, "first question") || strings.Contains(body, "Half") {
		t.Errorf("the prompt has the past: %s", body)
	}
	feed.until(t, isType("stop"))
	if got := wire(feed.must(t, len(third))); got != wire(third) {
		t.Errorf("the session's feed goes on with:\n%s", firstDiff(wire(third), got))
	}
	if got := wire(l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", "").rest(t)); got != wire(third) {
		t.Errorf("the session's feed:\n%s", firstDiff(wire(third), got))
	}
	l.do(t, "GET", "/api/v1/runs/"+first.run(), nil).data(t, 200, &struct{}{})
	for range 2 {
		l.do(t, "DELETE", "/api/v1/sessions/"+id+"/messages", nil).same(t, 200, `{"success":true,"message":"Messages cleared"}`)
	}
	l.do(t, "DELETE", "/api/v1/sessions/none/messages", nil).refused(t, 404, 1003, "session_not_found", "no such session")
}

// TestDeleteMessage: a message is gone from the list, its turn from later
// prompts; that of a run in progress is refused.
func TestDeleteMessage(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, say("First answer."), say("Second answer."), held(gate, []string{"Half"}, []string{" done"}), say("Fourth."))
	id := l.session(t)
	one := l.chat(t, id, "first question")
	one.rest(t)
	l.chat(t, id, "second question").rest(t)
	three := l.chat(t, id, "third question")
	three.until(t, isAnswer("Half"))
	path := "/api/v1/messages/" + id + "/"
	question := l.messages(t, id)[4]
	for _, m := range []string{three.run(), question.ID} {
		l.do(t, "DELETE", path+m, nil).same(t, 409, `{"success":false,"error":{"code":1005,"message":"<text>",
			"details":{"reason":"run_in_progress","run_id":"`+three.run()+`","message_id":"`+three.run()+`"}}}`)
	}
	l.do(t, "DELETE", path+one.run(), nil).same(t, 200, `{"success":true,"message":"Message deleted"}`)
	l.do(t, "DELETE", path+one.run(), nil).refused(t, 404, 1003, "message_not_found", "no such message")
	l.do(t, "DELETE", "/api/v1/messages/"+l.session(t)+"/"+three.run(), nil).refused(t, 404, 1003, "message_not_found", "no such message")
	close(gate)
	three.rest(t)
	l.do(t, "DELETE", path+question.ID, nil).same(t, 200, `{"success":true,"message":"Message deleted"}`)
	var left []string
	for _, m := range l.messages(t, id) {
		left = append(left, m.Content)
	}
	if got := strings.Join(left, "|"); got != "first question|second question|Second answer.|Half done" {
		t.Errorf("left: %s", got)
	}
	l.do(t, "GET", continued(id, one.run()), nil).refused(t, 404, 1003, "not_found", "no such message")
	l.chat(t, id, "fourth question").rest(t)
	body := string(l.model.Requests()[3].Body)
	for text, there := range map[string]bool{"first question": false, "First answer": false, "second question": true, "Second answer": true, "third question": false, "Half done": false} {
		if strings.Contains(body, text) != there {
			t.Errorf("%q in the prompt: %v", text, !there)
		}
	}
}
