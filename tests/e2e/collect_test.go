package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"refold/tests/scripted"
	"refold/tests/services"
)

// collected waits until the server has removed as many contents.
func (l *lab) collected(t testing.TB, want int) {
	t.Helper()
	n := 0
	for ctx := guarded(t); ctx.Err() == nil; {
		n = 0
		for line := range strings.Lines(l.p.log.String()) {
			var said struct {
				Msg     string
				Removed int
			}
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "unused content was removed" {
				n += said.Removed
			}
		}
		if n == want {
			return
		}
		if _, err := l.try(ctx, "GET", "/healthz", nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%d contents were removed, not %d", n, want)
}

// TestCollect: what no session names any more goes by itself, on either store;
// what one names stays, also if another tenant or session has let the same go.
func TestCollect(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "18"} {
		t.Run(store, func(t *testing.T) {
			l, one := keyed(t, func(s *settings) {
				s.Collect, s.Grace = 50, 1500
				if store != "sqlite" {
					s.Store = services.Postgres(t, store)
				}
			})
			l.model.Push(scripted.Say(call("c1", "flood", `{"bytes":100000}`)), say("A flood."), say("Asked."))
			two := one.newTenant(t, "Two")
			gone, kept, other := one.session(t), one.session(t), two.session(t)
			file := func(c client, session, text string) (a attached) {
				t.Helper()
				c.upload(t, session, "a.txt", []byte(text)).data(t, 202, &a)
				return a
			}
			file(one, gone, "shared with a session")
			file(one, gone, "shared with a tenant")
			file(one, gone, "of nobody else")
			stays := file(one, kept, "shared with a session")
			its := file(two, other, "shared with a tenant")
			named, dropped := file(one, kept, "named by a message"), file(one, kept, "taken off the list")
			one.chat(t, gone, "q").rest(t) // with a result that is stored whole
			one.chatWith(t, kept, map[string]any{"query": "q", "attachment_ids": []string{named.ID}}).rest(t)
			orphan := map[string]any{"data": "b3JwaGFu", "file_name": "in.txt"}
			one.do(t, "POST", "/api/v1/agent-chat/"+kept, map[string]any{"query": "q", "agent_id": "none", "attachment_uploads": []any{orphan}}).
				refused(t, 400, 1000, "agent_not_found", "no such agent")

			for _, a := range []attached{named, dropped} {
				if got := one.do(t, "DELETE", "/api/v1/sessions/"+kept+"/attachments/"+a.ID, nil); got.status != 204 {
					t.Errorf("HTTP %d %s", got.status, got.body)
				}
			}
			one.do(t, "DELETE", "/api/v1/sessions/"+gone, nil)
			// The result, the file of nobody else, the tenant's, the one off the list, the
			// orphan.
			l.collected(t, 5)
			for _, x := range []struct {
				c                    client
				session, id, content string
			}{{one, kept, stays.ID, "shared with a session"}, {two, other, its.ID, "shared with a tenant"}} {
				if got := x.c.do(t, "GET", "/api/v1/sessions/"+x.session+"/attachments/"+x.id+"/preview", nil); got.status != 200 || got.body != x.content {
					t.Errorf("%s: HTTP %d %s", x.content, got.status, got.body)
				}
			}
			m := one.media(t, kept)[0]
			if got := one.do(t, "GET", "/api/v1/sessions/"+kept+"/messages/"+m.ID+"/files?file_path=a.txt", nil); got.body != "named by a message" {
				t.Errorf("HTTP %d %s", got.status, got.body)
			}
			args := []string{"--data", l.s.Data, "--store", l.s.Store, "--json", "clean"}
			if store == "sqlite" {
				if out := refold(t, args...); out.code != 1 || !strings.Contains(out.stdout, "by itself") {
					t.Errorf("clean beside a server: exit %d, %s%s", out.code, out.stdout, out.stderr)
				}
				l.p.kill(t)
				args = append(args, "--older", "0s")
			} else if out := refold(t, append(args, "--older", "59m")...); out.code != 2 || !strings.Contains(out.stdout, "1h") {
				t.Errorf("clean at once on a shared record: exit %d, %s%s", out.code, out.stdout, out.stderr)
			}
			checked := map[string]int{"sqlite": 3, "18": 0}[store]
			if out := refold(t, append(args, "--count")...); out.code != 0 || out.stdout != fmt.Sprintf(`{"bytes":0,"checked":%d,"removed":0,"unused":0}`+"\n", checked) {
				t.Errorf("clean --count: exit %d, %s%s", out.code, out.stdout, out.stderr)
			}
		})
	}
}

// TestClean: the command counts, and removes, without a server.
func TestClean(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	id := l.session(t)
	var a attached
	l.upload(t, id, "a.txt", []byte("some text")).data(t, 202, &a)
	l.do(t, "DELETE", "/api/v1/sessions/"+id, nil)
	l.p.kill(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "0 of 0 stored contents were unused and are removed, 0 bytes.\n"}, // none is a day old
		{[]string{"--older", "0s", "--count"}, "1 of 1 stored contents are unused, 9 bytes.\n"},
		{[]string{"--older", "0s"}, "1 of 1 stored contents were unused and are removed, 9 bytes.\n"},
		{[]string{"--older", "0s"}, "0 of 0 stored contents were unused and are removed, 0 bytes.\n"},
	} {
		if out := refold(t, append([]string{"--data", l.s.Data, "clean"}, c.args...)...); out.code != 0 || out.stdout != c.want {
			t.Errorf("clean %v: exit %d, %s%s", c.args, out.code, out.stdout, out.stderr)
		}
	}
	if out := refold(t, "--data", l.s.Data, "clean", "--older", "-1s"); out.code != 2 {
		t.Errorf("exit %d, %s%s", out.code, out.stdout, out.stderr)
	}
	if out := refold(t, "--data", l.s.Data, "rebuild", "references"); out.code != 0 || !strings.Contains(out.stdout, "equal to the old one") {
		t.Errorf("rebuild: exit %d, %s%s", out.code, out.stdout, out.stderr)
	}
}
