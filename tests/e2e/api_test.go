package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"refold/tests/scripted"
)

const sessionForm = `{"id":"<uuid>","title":%q,"description":%q,"tenant_id":1,"user_id":"user:local","is_pinned":false,"created_at":"<time>","updated_at":"<time>","deleted_at":null}`

// TestSessions: create, read, list, change, delete.
func TestSessions(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Hi."))
	one := func(title, description string) string {
		return `{"success":true,"data":` + fmt.Sprintf(sessionForm, title, description) + `}`
	}
	l.do(t, "GET", "/api/v1/sessions", nil).same(t, 200, `{"success":true,"data":[],"total":0,"page":1,"page_size":20}`)
	created := l.do(t, "POST", "/api/v1/sessions", map[string]any{"title": "Täglich 一", "description": "d", "unknown_field": 1})
	created.same(t, 201, one("Täglich 一", "d"))
	var s struct{ ID string }
	created.data(t, 201, &s)
	l.do(t, "POST", "/api/v1/sessions", nil).same(t, 201, one("", "")) // an empty body is an empty object
	l.do(t, "POST", "/api/v1/sessions", `{"title":null}`).same(t, 201, one("", ""))
	l.do(t, "GET", "/api/v1/sessions/"+s.ID, nil).same(t, 200, one("Täglich 一", "d"))
	l.do(t, "PUT", "/api/v1/sessions/"+s.ID, map[string]any{"title": "new"}).same(t, 200, one("new", "")) // absent is ""
	if pos := created.head.Get("X-Refold-Position"); pos == "" {
		t.Error("no position")
	} else {
		l.do(t, "GET", "/api/v1/sessions/"+s.ID+"?after="+url.QueryEscape(pos), nil).same(t, 200, one("new", ""))
	}
	l.chat(t, s.ID, "q").rest(t)
	l.do(t, "GET", "/api/v1/sessions/"+s.ID, nil).same(t, 200, strings.Replace(one("new", ""), `"is_pinned"`,
		`"last_request_state":{"agent_id":"builtin-smart-reasoning","agent_enabled":true,"web_search_enabled":false},"is_pinned"`, 1))
	l.do(t, "DELETE", "/api/v1/sessions/"+s.ID, nil).same(t, 200, `{"success":true,"message":"Session deleted"}`)
	for _, r := range [][2]string{{"GET", "/api/v1/sessions/" + s.ID}, {"PUT", "/api/v1/sessions/" + s.ID}, {"DELETE", "/api/v1/sessions/" + s.ID},
		{"POST", "/api/v1/agent-chat/" + s.ID}, {"GET", "/api/v1/messages/" + s.ID + "/load"}, {"GET", continued(s.ID, "x")},
		{"GET", "/api/v1/sessions/" + s.ID + "/events"}} {
		var body any
		if r[0] == "POST" {
			body = map[string]any{"query": "q"}
		}
		l.do(t, r[0], r[1], body).refused(t, 404, 1003, "session_not_found", "no such session")
	}
	var rows []struct{ ID string }
	l.do(t, "GET", "/api/v1/sessions", nil).data(t, 200, &rows)
	if len(rows) != 2 {
		t.Errorf("the list shows %d sessions", len(rows))
	}
	for _, n := range []struct {
		field string
		most  int
	}{{"title", 500}, {"description", 4000}} {
		l.do(t, "POST", "/api/v1/sessions", map[string]any{n.field: strings.Repeat("字", n.most)})
		l.do(t, "POST", "/api/v1/sessions", map[string]any{n.field: strings.Repeat("字", n.most+1)}).refused(t, 400, 1000, n.field+"_too_long", "shorten")
	}
}

// TestDeleteStops: deleting a session ends its run.
func TestDeleteStops(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One"}, nil))
	id := l.session(t)
	r := l.chat(t, id, "q")
	r.until(t, isAnswer("One"))
	l.do(t, "DELETE", "/api/v1/sessions/"+id, nil).same(t, 200, `{"success":true,"message":"Session deleted"}`)
	frames := r.rest(t)
	if last := frames[len(frames)-1]; last.Type != "stop" || last.text("reason") != "session_deleted" {
		t.Errorf("ended with %s", last.raw)
	}
}

// TestPaging: pages, sizes, and walks with a cursor while rows are added.
func TestPaging(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	const n = 25
	var made []string
	for range n {
		made = append(made, l.session(t))
	}
	page := func(query string) (ids []string, total, number, size int, next string) {
		t.Helper()
		a := l.do(t, "GET", "/api/v1/sessions"+query, nil)
		var rows []struct{ ID string }
		a.data(t, 200, &rows)
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		top := decode(t, a.body)
		next, _ = top["next_cursor"].(string)
		return ids, int(top["total"].(float64)), int(top["page"].(float64)), int(top["page_size"].(float64)), next
	}
	for _, c := range []struct {
		query              string
		rows, number, size int
	}{{"", 20, 1, 20}, {"?page=2", 5, 2, 20}, {"?page=0&page_size=0", 20, 1, 20}, {"?page_size=1000", 25, 1, 1000}, {"?page=3&page_size=10", 5, 3, 10}, {"?page=99", 0, 99, 20}} {
		ids, total, number, size, _ := page(c.query)
		if len(ids) != c.rows || total != n || number != c.number || size != c.size {
			t.Errorf("%s: %d rows of %d, page %d of size %d", c.query, len(ids), total, number, size)
		}
	}
	for _, bad := range []string{"?page_size=1001", "?page_size=1000000", "?page_size=-1", "?page=-1", "?page=x", "?page_size=1.5", "?page=1000000&page_size=1000"} {
		l.do(t, "GET", "/api/v1/sessions"+bad, nil).refused(t, 400, 1000, "bad_request", "")
	}
	for _, bad := range []string{"garbage", "AAAA", url.QueryEscape(`{"a":1}`)} {
		l.do(t, "GET", "/api/v1/sessions?cursor="+bad, nil).refused(t, 400, 1000, "", "cursor")
	}
	seen := map[string]int{}
	ids, _, _, _, next := page("?page_size=7")
	_, _, _, _, otherNext := page("?page_size=7")
	for next != "" {
		for _, id := range ids {
			seen[id]++
		}
		l.session(t) // a new row at the top moves nobody's place
		ids, _, _, _, next = page("?page_size=7&cursor=" + url.QueryEscape(next))
	}
	for _, id := range ids {
		seen[id]++
	}
	for _, id := range made {
		if seen[id] != 1 {
			t.Errorf("the walk shows a session %d times", seen[id])
		}
	}
	l.do(t, "GET", "/api/v1/runs?cursor="+url.QueryEscape(otherNext), nil).refused(t, 400, 1000, "", "cursor")
	l.do(t, "GET", "/api/v1/sessions?after=zzzz", nil).refused(t, 400, 1000, "bad_request", "after")
}

// TestMessages: the exact form of both messages of a turn, and walks back in
// time.
func TestMessages(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil,
		scripted.Say(scripted.Reasoning("Why."), scripted.Text("Look."), call("c1", "look", `{"at":"x"}`), call("c2", "look", `{"at":"fail"}`)),
		scripted.Say(append(words("It is ", "x."), scripted.Usage(5, 6, 11))...))
	l.model.Always(say("Again."))
	id := l.session(t)
	r := l.with("X-Request-ID", "req-7").chatWith(t, id, map[string]any{"query": "Was ist <x>?", "agent_id": "builtin-smart-reasoning", "channel": "web"})
	frames := r.rest(t)
	for _, f := range frames {
		if f.Request != "req-7" {
			t.Fatalf("a frame of request %q", f.Request)
		}
	}
	l.do(t, "GET", "/api/v1/messages/"+id+"/load", nil).same(t, 200, `{"success":true,"data":[
		{"id":"<uuid>","session_id":"`+id+`","request_id":"req-7","content":"Was ist <x>?","role":"user","knowledge_references":[],"is_completed":true,
		 "channel":"web","agent_id":"builtin-smart-reasoning","created_at":"<time>","updated_at":"<time>","deleted_at":null},
		{"id":"`+r.run()+`","session_id":"`+id+`","request_id":"req-7","content":"It is x.","role":"assistant","knowledge_references":[],"is_completed":true,
		 "agent_steps":[
		  {"iteration":0,"thought":"Look.","reasoning_content":"Why.","timestamp":"<time>","tool_calls":[
		   {"id":"c1","name":"look","args":{"at":"x"},"duration":"<number>","result":{"success":true,"output":"saw x"}},
		   {"id":"c2","name":"look","args":{"at":"fail"},"duration":"<number>","result":{"success":false,"output":"<text>","error":"<text>"}}]},
		  {"iteration":1,"thought":"","tool_calls":[],"timestamp":"<time>"}],
		 "agent_duration_ms":"<number>","channel":"web","agent_id":"builtin-smart-reasoning","model_id":"scripted","created_at":"<time>","updated_at":"<time>","deleted_at":null,
		 "run_id":"`+r.run()+`","outcome":"completed","end_reason":"natural","usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}]}`)
	for range 3 {
		l.chat(t, id, "and?").rest(t)
	}
	all := l.messages(t, id)
	if len(all) != 8 {
		t.Fatalf("%d messages", len(all))
	}
	for i, m := range all {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || i > 0 && m.CreatedAt.Before(all[i-1].CreatedAt) {
			t.Errorf("message %d is by %s at %s", i, m.Role, m.CreatedAt)
		}
	}
	var walked []message
	before := ""
	for {
		var page []message
		l.do(t, "GET", "/api/v1/messages/"+id+"/load?limit=3"+before, nil).data(t, 200, &page)
		if len(page) == 0 {
			break
		}
		walked = append(page, walked...)
		before = "&before_time=" + url.QueryEscape(page[0].CreatedAt.Format("2006-01-02T15:04:05.999999999Z07:00"))
	}
	for i := range all {
		if len(walked) != len(all) || walked[i].ID != all[i].ID {
			t.Fatalf("the walk has %d messages, the whole %d; they part at %d", len(walked), len(all), i)
		}
	}
	for _, bad := range []string{"before_time=yesterday", "before_time=1700000000", "limit=-1", "limit=1001", "limit=x"} {
		l.do(t, "GET", "/api/v1/messages/"+id+"/load?"+bad, nil).refused(t, 400, 1000, "bad_request", strings.SplitN(bad, "=", 2)[0])
	}
}

// TestRunsAndTools: the lists of runs, calls and approvals, and their filters.
func TestRunsAndTools(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil,
		scripted.Say(call("c1", "look", `{"at":"x"}`), call("c2", "look", `{"at":"fail"}`)), say("One."),
		scripted.Say(call("c3", "ledger_append", `{"line":"L"}`)), say("Two."),
		scripted.Fail(401, "no"), mail(`{"to":"a@example.test"}`))
	a, b := l.session(t), l.session(t)
	first := l.chat(t, a, "one")
	first.rest(t)
	l.chat(t, a, "two").rest(t)
	failed := l.chat(t, b, "three")
	failed.rest(t)
	waits := l.chat(t, l.session(t), "four")
	approval, _ := asked(t, waits)
	usage := `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	l.do(t, "GET", "/api/v1/runs/"+first.run(), nil).same(t, 200, `{"success":true,"data":{"id":"`+first.run()+`","session":"`+a+`","query":"one",
		"agent":"builtin-smart-reasoning","model":"scripted","status":"completed","end_reason":"natural","rounds":2,"tool_calls":2,"pending_approvals":0,
		"failed_attempts":0,"usage":`+usage+`,"duration_ms":"<number>","at":"<time>","ended_at":"<time>"}}`)
	l.do(t, "GET", "/api/v1/runs?session="+b, nil).same(t, 200, `{"success":true,"total":1,"page":1,"page_size":20,"data":[{"id":"`+failed.run()+`","session":"`+b+`",
		"query":"three","agent":"builtin-smart-reasoning","model":"scripted","status":"failed","end_reason":"model_failed","error_code":"unauthorized","error":"<text>",
		"rounds":1,"tool_calls":0,"pending_approvals":0,"failed_attempts":1,"usage":`+usage+`,"duration_ms":"<number>","at":"<time>","ended_at":"<time>"}]}`)
	l.do(t, "GET", "/api/v1/tool-log?tool=ledger_append", nil).same(t, 200, `{"success":true,"total":1,"page":1,"page_size":20,"data":[{"call":"c3","run":"<uuid>","session":"`+a+`",
		"tool":"ledger_append","args":{"line":"L"},"round":0,"attempts":1,"outcome":"success","preview":"appended L","duration_ms":"<number>","at":"<time>","ended_at":"<time>"}]}`)
	l.do(t, "GET", "/api/v1/agent/tool-approvals?status=pending", nil).same(t, 200, `{"success":true,"total":1,"page":1,"page_size":20,"data":[{"id":"`+approval+`",
		"run":"`+waits.run()+`","session":"<uuid>","call":"m1","tool":"mail_send","trigger":"policy","question":"<text>","args":{"to":"a@example.test"},"digest":"<text>",
		"status":"pending","at":"<time>","expires":"<time>"}]}`)
	for path, want := range map[string]int{
		"/runs": 4, "/runs?session=" + a: 2, "/runs?status=failed": 1, "/runs?status=waiting": 1, "/runs?from=2000-01-01T00:00:00Z": 4,
		"/runs?to=2000-01-01T00:00:00Z": 0, "/tool-log": 4, "/tool-log?outcome=failed": 1, "/tool-log?outcome=waiting": 1, "/tool-log?run=" + first.run(): 2,
		"/tool-log?session=" + a: 3, "/tool-log?session=" + a + "&outcome=success": 2, "/agent/tool-approvals?status=approved": 0,
		"/agent/tool-approvals?run=" + waits.run(): 1, "/agent/tool-approvals?session=" + a: 0, "/tool-log?page_size=2": 2,
		"/tool-log?from=2000-01-01T00:00:00Z": 4, "/tool-log?to=2000-01-01T00:00:00Z": 0,
	} {
		var rows []map[string]any
		l.do(t, "GET", "/api/v1"+path, nil).data(t, 200, &rows)
		if len(rows) != want {
			t.Errorf("%s: %d rows, want %d", path, len(rows), want)
		}
	}
	for _, path := range []string{"/runs?from=x", "/tool-log?to=x", "/agent/tool-approvals?from=1", "/runs?page_size=1001", "/tool-log?page=x"} {
		l.do(t, "GET", "/api/v1"+path, nil).refused(t, 400, 1000, "bad_request", "")
	}
	l.do(t, "GET", "/api/v1/runs/nope", nil).refused(t, 404, 1003, "run_not_found", "")
	l.do(t, "GET", "/api/v1/runs/"+strings.Repeat("x", 3000), nil).refused(t, 404, 1003, "run_not_found", "")
}

// TestAgents: the built-in agents, and health.
func TestAgents(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	form := `{"id":"builtin-smart-reasoning","name":"Smart reasoning","description":"<text>","avatar":"","is_builtin":true,"tenant_id":1,"created_by":"",
		"config":"<object>","created_at":"0001-01-01T00:00:00Z","updated_at":"0001-01-01T00:00:00Z","deleted_at":null}`
	quick := strings.NewReplacer("builtin-smart-reasoning", "builtin-quick-answer", "Smart reasoning", "Quick answer").Replace(form)
	l.do(t, "GET", "/api/v1/agents", nil).same(t, 200, `{"success":true,"data":[`+quick+`,`+form+`],"disabled_own_agent_ids":[]}`)
	l.do(t, "GET", "/api/v1/agents/builtin-smart-reasoning", nil).same(t, 200, `{"success":true,"data":`+form+`}`)
	l.do(t, "GET", "/api/v1/agents/nope", nil).refused(t, 404, 1003, "not_found", "agent")
	l.do(t, "GET", "/health", nil).same(t, 200, `{"status":"ok","version":"e2e"}`)
	l.do(t, "GET", "/healthz", nil).same(t, 200, `{"status":"ok","version":"e2e"}`)
	if a := l.do(t, "HEAD", "/health", nil); a.status != 200 || a.body != "" {
		t.Errorf("HEAD /health: %d %q", a.status, a.body)
	}
	l.model.Push(say("Yes."))
	l.chat(t, l.session(t), "q").rest(t) // by now the runner has taken over
	l.do(t, "GET", "/readyz", nil).same(t, 200, `{"status":"ready"}`)
}
