package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/tests/scripted"
)

func mail(args string) scripted.Step { return scripted.Say(call("m1", "mail_send", args)) }

func resolvePath(id string) string { return "/api/v1/agent/tool-approvals/" + id }

// asked reads up to the request for approval and gives its id.
func asked(t testing.TB, r *reader) (string, []frame) {
	t.Helper()
	frames := r.until(t, isType("tool_approval_required"))
	return frames[len(frames)-1].text("pending_id"), frames
}

// TestApprovalSurvivesKill (P53): the server dies while a person is asked; the
// answer to the next server counts, once.
func TestApprovalSurvivesKill(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{"approve", "reject"} {
		l := newLab(t, nil, mail(`{"to":"a@example.test"}`), say("Done."))
		id := l.session(t)
		r := l.chat(t, id, "q")
		approval, frames := asked(t, r)
		if n := len(l.approvals(t, "status=pending&session="+id)); n != 1 {
			t.Errorf("%d pending approvals", n)
		}
		l.p.kill(t)
		r.close()
		l.up(t)
		if list := l.approvals(t, "status=pending&run="+r.run()); len(list) != 1 || list[0].ID != approval || list[0].Tool != "mail_send" || list[0].Trigger != "policy" {
			t.Errorf("the inbox after the restart: %+v", list)
		}
		if len(l.model.Requests()) != 1 {
			t.Errorf("the model was asked again before there was an answer")
		}
		l.do(t, "POST", resolvePath(approval), map[string]any{"decision": decision, "reason": "so"}).same(t, 200, `{"success":true}`)
		for _, again := range []string{"approve", "reject"} {
			l.do(t, "POST", resolvePath(approval), map[string]any{"decision": again}).refused(t, 400, 1000, "already_resolved", "already been resolved")
		}
		frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
		checkFeed(t, frames)
		if shown(frames, "answer") != "Done." {
			t.Errorf("the run did not go on:\n%s", wire(frames))
		}
		want := 0
		status := "rejected"
		if decision == "approve" {
			want, status = 1, "approved"
		}
		if n := count(t, l.s.Ledger)[`{"to":"a@example.test"}`]; n != want {
			t.Errorf("%s: sent %d times", decision, n)
		}
		if list := l.approvals(t, "run="+r.run()); len(list) != 1 || list[0].Status != status || list[0].Reason != "so" {
			t.Errorf("the inbox at the end: %+v", list)
		}
		if told := l.model.Requests()[1].Last("tool"); decision == "reject" && (!strings.Contains(told, "a person rejected this call") || !strings.Contains(told, "Their reason: so")) {
			t.Errorf("the model was told %q", told)
		}
	}
}

// TestApprovalExpires (P54): leaving does not answer; time does, in words that
// say so; a message meanwhile is refused, afterwards it is taken.
func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(s *settings) { s.Approval = 1500 }, mail(`{"to":"a@example.test"}`), say("Nobody answered."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	approval, frames := asked(t, r)
	r.close()
	if got := frames[len(frames)-1].Data["timeout_seconds"]; got != 1.0 && got != 2.0 {
		t.Errorf("timeout_seconds %v", got)
	}
	if list := l.approvals(t, "status=pending"); len(list) != 1 {
		t.Errorf("leaving has answered: %+v", list)
	}
	if a := l.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "hello?"}); a.status != 409 {
		t.Errorf("a message while a person is asked: HTTP %d %s", a.status, a.body)
	}
	frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
	checkFeed(t, frames)
	resolved := 0
	for _, f := range frames {
		if f.Type == "tool_approval_resolved" {
			resolved++
			if f.Data["timed_out"] != true || f.Data["approved"] != false || f.text("pending_id") != approval {
				t.Errorf("resolved by %s", f.raw)
			}
		}
	}
	if resolved != 1 || shown(frames, "answer") != "Nobody answered." {
		t.Errorf("%d resolutions:\n%s", resolved, wire(frames))
	}
	l.do(t, "POST", resolvePath(approval), map[string]any{"decision": "approve"}).refused(t, 400, 1000, "approval_expired", "expired")
	if told := l.model.Requests()[1].Last("tool"); !strings.Contains(told, "nobody answered the request for approval in time") || strings.Contains(told, "reject") {
		t.Errorf("the model was told %q", told)
	}
	if len(count(t, l.s.Ledger)) != 0 {
		t.Error("the call has run")
	}
	l.model.Push(say("Hello."))
	if next := l.chat(t, id, "hello?").rest(t); shown(next, "answer") != "Hello." {
		t.Errorf("the next turn: %s", wire(next))
	}
}

// TestApprovalExpiresWhileDown: the time passes while there is no server.
func TestApprovalExpiresWhileDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(s *settings) { s.Approval = 300 }, mail(`{"to":"a@example.test"}`), say("Too late."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	approval, frames := asked(t, r)
	l.p.kill(t)
	// Five heartbeats of another server are longer than the approval lives.
	other := newLab(t, func(s *settings) { s.Heartbeat = 100 })
	beats := other.open(t, "/api/v1/sessions/"+other.session(t)+"/events", "")
	for range 5 {
		if f, err := beats.any(); err != nil || !f.comment {
			t.Fatalf("%+v %v", f, err)
		}
	}
	l.up(t)
	frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
	checkFeed(t, frames)
	l.do(t, "POST", resolvePath(approval), map[string]any{"decision": "approve"}).refused(t, 400, 1000, "approval_expired", "expired")
	if shown(frames, "answer") != "Too late." || len(count(t, l.s.Ledger)) != 0 {
		t.Errorf("ledger %v, feed:\n%s", count(t, l.s.Ledger), wire(frames))
	}
}

// TestModifiedArguments (P55): what runs is what was approved, digit by digit,
// also after a restart; what the model reads says the same.
func TestModifiedArguments(t *testing.T) {
	t.Parallel()
	const big = "9007199254740993"
	for _, c := range []struct{ proposed, modified, want string }{
		{`{"to":"a@example.test","n":` + big + `}`, ``, `{"n":` + big + `,"to":"a@example.test"}`},
		{`{"to":"a@example.test","n":1}`, `{"n":` + big + `, "to":"b@example.test"}`, `{"n":` + big + `,"to":"b@example.test"}`},
	} {
		l := newLab(t, nil, mail(c.proposed), say("Sent."))
		id := l.session(t)
		r := l.chat(t, id, "q")
		approval, frames := asked(t, r)
		shownArgs := frames[len(frames)-1]
		if sorted(t, shownArgs.text("args_json")) != sorted(t, c.proposed) {
			t.Errorf("shown %s, proposed %s", shownArgs.text("args_json"), c.proposed)
		}
		for _, bad := range []string{`[1]`, `"x"`, `null`, `7`} {
			l.do(t, "POST", resolvePath(approval), `{"decision":"approve","modified_args":`+bad+`}`).refused(t, 400, 1000, "bad_modified_args", "must be a JSON object")
		}
		body := `{"decision":"approve"}`
		if c.modified != "" {
			body = `{"decision":"approve","modified_args":` + c.modified + `}`
		}
		l.p.kill(t)
		r.close()
		l.up(t)
		l.do(t, "POST", resolvePath(approval), body).same(t, 200, `{"success":true}`)
		frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
		if shown(frames, "answer") != "Sent." {
			t.Errorf("the run did not go on:\n%s", wire(frames))
		}
		ran := count(t, l.s.Ledger)
		if len(ran) != 1 {
			t.Errorf("ran with %v", ran)
		}
		for line := range ran {
			if sorted(t, line) != c.want {
				t.Errorf("ran with %s, approved %s", line, c.want)
			}
		}
		if list := l.approvals(t, "run="+r.run()); len(list) != 1 || sorted(t, string(list[0].Args)) != c.want {
			t.Errorf("the record says %+v", list)
		}
		req := string(l.model.Requests()[1].Body)
		for _, part := range []string{big, strings.TrimSuffix(strings.SplitAfter(c.want, `"to":"`)[1], `"}`)} {
			if !strings.Contains(req, part) {
				t.Errorf("the model reads nothing of %s, which has run: %s", part, req)
			}
		}
	}
}

// sorted gives JSON with sorted keys and the digits of its numbers.
func sorted(t testing.TB, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestUnknownOutcome: the server dies between effect and report. The call is not
// repeated and not called failed: a person is asked, and either answer counts.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decision string
		lines    int
	}{{"approve", 2}, {"reject", 1}} {
		x := newTrap(t)
		l := newLab(t, func(s *settings) { s.Gate = x.path }, scripted.Say(call("c1", "ledger_append", `{"line":"L"}`)), say("Done."))
		id := l.session(t)
		r := l.chat(t, id, "q")
		x.caught(t, "before L")
		x.release(t)
		x.caught(t, "after L")
		l.p.kill(t)
		r.close()
		l.up(t)
		feed := l.watch(t, id, r.run(), "")
		approval, frames := asked(t, feed)
		if last := frames[len(frames)-1]; last.text("trigger") != "recovery" || last.text("tool_call_id") != "c1" {
			t.Errorf("asked %s", last.raw)
		}
		l.do(t, "POST", resolvePath(approval), map[string]any{"decision": c.decision}).same(t, 200, `{"success":true}`)
		if c.decision == "approve" {
			x.caught(t, "before L")
			x.release(t)
			x.caught(t, "after L")
			x.release(t)
		}
		frames = append(frames, feed.rest(t)...)
		checkFeed(t, frames)
		if n := count(t, l.s.Ledger)["L"]; n != c.lines || shown(frames, "answer") != "Done." {
			t.Errorf("%s: %d lines\n%s", c.decision, n, wire(frames))
		}
		if told := l.model.Requests()[1].Last("tool"); c.decision == "reject" && !strings.Contains(told, "unknown") {
			t.Errorf("the model was told %q", told)
		}
	}
}

// TestLostRead: a read-only call that dies with the server is made again by
// itself.
func TestLostRead(t *testing.T) {
	t.Parallel()
	x := newTrap(t)
	l := newLab(t, func(s *settings) { s.Gate = x.path }, scripted.Say(call("c1", "look", `{"at":"here"}`)), say("Seen."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	x.caught(t, "look here")
	l.p.kill(t)
	r.close()
	l.up(t)
	x.caught(t, "look here")
	x.release(t)
	frames := l.watch(t, id, r.run(), "").rest(t)
	checkFeed(t, frames)
	if shown(frames, "answer") != "Seen." || strings.Contains(wire(frames), "approval") {
		t.Errorf("feed:\n%s", wire(frames))
	}
}

// TestStopWhileAsked: a stop closes the request; it can't be answered any more.
func TestStopWhileAsked(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, mail(`{"to":"a@example.test"}`))
	id := l.session(t)
	r := l.chat(t, id, "q")
	approval, frames := asked(t, r)
	l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": r.run()}).same(t, 200, `{"success":true,"message":"Generation stopped"}`)
	frames = append(frames, r.rest(t)...)
	checkFeed(t, frames)
	canceled := false
	for _, f := range frames {
		canceled = canceled || f.Type == "tool_approval_resolved" && f.Data["canceled"] == true
	}
	if !canceled {
		t.Errorf("the feed does not close the request:\n%s", wire(frames))
	}
	l.do(t, "POST", resolvePath(approval), map[string]any{"decision": "approve"}).refused(t, 400, 1000, "already_resolved", "")
	if list := l.approvals(t, "status=canceled"); len(list) != 1 || list[0].ID != approval {
		t.Errorf("the inbox: %+v", list)
	}
	l.do(t, "POST", resolvePath("00000000-0000-8000-8000-000000000000"), map[string]any{"decision": "approve"}).refused(t, 404, 1003, "approval_not_found", "")
	l.do(t, "POST", resolvePath(approval), map[string]any{"decision": "maybe"}).refused(t, 400, 1000, "bad_request", "approve")
	l.do(t, "POST", resolvePath(approval), nil).refused(t, 400, 1000, "bad_request", "decision")
}
