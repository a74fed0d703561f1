package e2e

import (
	"strings"
	"testing"

	"refold/tests/scripted"
)

// ask is the body of a message that says what to do while a run is in progress.
func ask(query, busy string) map[string]any {
	return map[string]any{"query": query, "agent_id": "builtin-smart-reasoning", "agent_enabled": true, "on_busy": busy}
}

// waiting are the texts of the messages that wait in a session.
func (l *lab) waiting(t *testing.T, id string) (texts, messages []string) {
	t.Helper()
	var rows []struct {
		MessageID string `json:"message_id"`
		Query     string
		Place     int
	}
	l.do(t, "GET", "/api/v1/sessions/"+id+"/queue", nil).data(t, 200, &rows)
	for i, r := range rows {
		if r.Place != i+1 {
			t.Errorf("row %d has place %d", i, r.Place)
		}
		texts, messages = append(texts, r.Query), append(messages, r.MessageID)
	}
	return texts, messages
}

// TestEnqueue: queued messages are listed, edited and withdrawn until they are
// taken, one after another, when the run in progress ends.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, held(gate, []string{"One "}, []string{"two."}), say("Third."), say("Fourth."))
	id := l.session(t)
	first := l.chat(t, id, "first?")
	head := first.until(t, isAnswer("One "))
	second := l.chatWith(t, id, ask("second?", "enqueue"))
	third := l.chatWith(t, id, ask("third?", "enqueue"))
	fourth := l.chatWith(t, id, ask("fourth?", "enqueue"))
	for _, r := range []*reader{second, third, fourth} {
		if r.head.Get("X-Refold-Taken") != "queued" || r.run() == "" {
			t.Fatalf("headers of a queued message: %v", r.head)
		}
	}
	texts, ids := l.waiting(t, id)
	if strings.Join(texts, " ") != "second? third? fourth?" {
		t.Fatalf("waiting: %q", texts)
	}
	queue := "/api/v1/sessions/" + id + "/queue/"
	l.do(t, "PUT", queue+ids[1], map[string]any{"query": "third, rather?"}).same(t, 200, `{"success":true}`)
	l.do(t, "PUT", queue+ids[1], map[string]any{"query": " "}).data(t, 400, nil)
	l.do(t, "DELETE", queue+ids[0], nil).same(t, 200, `{"success":true,"message":"Message withdrawn"}`)
	l.do(t, "DELETE", queue+ids[0], nil).data(t, 404, nil)
	if gone := second.rest(t); len(gone) != 1 || gone[0].Type != "error" || !gone[0].Done {
		t.Errorf("the reader of a withdrawn message: %s", wire(gone))
	}
	// A plain message does not overtake those that wait.
	l.do(t, "POST", "/api/v1/agent-chat/"+id, ask("now!", "reject")).data(t, 409, nil)
	close(gate)
	checkFeed(t, append(head, first.rest(t)...))
	if got := shown(third.rest(t), "answer"); got != "Third." {
		t.Errorf("the third message was answered with %q", got)
	}
	if got := shown(fourth.rest(t), "answer"); got != "Fourth." {
		t.Errorf("the fourth message was answered with %q", got)
	}
	if body := string(l.model.Requests()[1].Body); !strings.Contains(body, "third, rather?") || strings.Contains(body, "second?") {
		t.Errorf("the model was asked: %s", body)
	}
	var contents []string
	for _, m := range l.messages(t, id) {
		contents = append(contents, m.Content)
	}
	if got := strings.Join(contents, "|"); got != "first?|One two.|third, rather?|Third.|fourth?|Fourth." {
		t.Errorf("messages: %s", got)
	}
	l.do(t, "PUT", queue+ids[1], map[string]any{"query": "too late"}).data(t, 404, nil)
}

// TestEnqueueSurvivesKill: the queue is on the record.
func TestEnqueueSurvivesKill(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One "}, nil), say("One again."), say("Second."))
	id := l.session(t)
	l.chat(t, id, "first?").until(t, isAnswer("One "))
	queued := l.chatWith(t, id, ask("second?", "enqueue"))
	run := queued.run()
	l.p.kill(t)
	l.up(t)
	frames := l.watch(t, id, run, "").rest(t)
	checkFeed(t, frames)
	if got := shown(frames, "answer"); got != "Second." {
		t.Errorf("after the restart the queued message was answered with %q", got)
	}
	if texts, _ := l.waiting(t, id); len(texts) != 0 {
		t.Errorf("still waiting: %q", texts)
	}
}

// TestBusyInterrupt: the run in progress is stopped, what it has said stays and the
// model knows it.
func TestBusyInterrupt(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"Half an ans"}, []string{"wer."}), say("Done."))
	id := l.session(t)
	first := l.chat(t, id, "first?")
	head := first.until(t, isAnswer("Half an ans"))
	if got := shown(l.chatWith(t, id, ask("rather this", "interrupt")).rest(t), "answer"); got != "Done." {
		t.Errorf("answered with %q", got)
	}
	frames := append(head, first.rest(t)...)
	checkFeed(t, frames)
	if last := frames[len(frames)-1]; last.Type != "stop" || last.text("reason") != "interrupt" {
		t.Errorf("the interrupted run ended with %s", last.raw)
	}
	if body := string(l.model.Requests()[1].Body); !strings.Contains(body, "first?") || !strings.Contains(body, "Half an ans") {
		t.Errorf("the model was asked: %s", body)
	}
}

// TestRollback: the turn in progress is taken back from view and prompts.
func TestRollback(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"Half an ans"}, nil), say("Done."))
	id := l.session(t)
	l.chat(t, id, "first?").until(t, isAnswer("Half an ans"))
	if got := shown(l.chatWith(t, id, ask("instead", "rollback")).rest(t), "answer"); got != "Done." {
		t.Errorf("answered with %q", got)
	}
	if body := string(l.model.Requests()[1].Body); strings.Contains(body, "first?") || strings.Contains(body, "Half an ans") {
		t.Errorf("the model was asked: %s", body)
	}
	if m := l.messages(t, id); len(m) != 2 || m[0].Content != "instead" || m[1].Content != "Done." {
		t.Errorf("messages: %+v", m)
	}
	// Nothing in progress: it is a plain message, and takes nothing back.
	l.model.Push(say("More."))
	l.chatWith(t, id, ask("and?", "rollback")).rest(t)
	if m := l.messages(t, id); len(m) != 4 {
		t.Errorf("%d messages after a rollback with nothing in progress", len(m))
	}
}

// TestSteer: the run in progress reads the message with its next round, and an
// answer that it was writing meanwhile does not end it.
func TestSteer(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, scripted.Say(call("c1", "look_up", `{}`)), held(gate, []string{"All of "}, []string{"them."}), say("Only the second."))
	id := l.session(t)
	first := l.chat(t, id, "first?")
	head := first.until(t, isAnswer("All of "))
	steered := l.chatWith(t, id, ask("only the second", "steer"))
	if steered.head.Get("X-Refold-Taken") != "steered" || steered.run() != first.run() {
		t.Errorf("headers: %v", steered.head)
	}
	close(gate)
	frames := append(head, first.rest(t)...)
	checkFeed(t, frames)
	if got := wire(steered.rest(t)); got != wire(frames) {
		t.Errorf("the steering reader saw:\n%s", firstDiff(wire(frames), got))
	}
	if got := shown(frames, "answer"); got != "Only the second." {
		t.Errorf("the answer shown is %q", got)
	}
	superseded := false
	for _, f := range frames {
		superseded = superseded || f.Type == "answer" && f.Data["superseded"] == true && f.text("reason") == "steer"
	}
	if !superseded {
		t.Error("the answer that no longer counts was not superseded")
	}
	body := string(l.model.Requests()[2].Body)
	if !strings.Contains(body, "All of them.") || !strings.HasSuffix(strings.Split(body, "only the second")[0], `"role":"user","content":"`) && !strings.Contains(body, "only the second") {
		t.Errorf("the model was asked: %s", body)
	}
	var contents []string
	for _, m := range l.messages(t, id) {
		contents = append(contents, m.Role+": "+m.Content)
	}
	if got := strings.Join(contents, "|"); got != "user: first?|assistant: Only the second.|user: only the second" {
		t.Errorf("messages: %s", got)
	}
	// Nothing in progress: it is a plain message.
	l.model.Push(say("More."))
	if got := shown(l.chatWith(t, id, ask("and?", "steer")).rest(t), "answer"); got != "More." {
		t.Errorf("answered with %q", got)
	}
	l.do(t, "POST", "/api/v1/agent-chat/"+id, ask("x", "shout")).data(t, 400, nil)
}
