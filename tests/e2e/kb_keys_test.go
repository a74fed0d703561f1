package e2e

import (
	"testing"
)

// TestKBKeys: what each capability opens of the routes about knowledge.
func TestKBKeys(t *testing.T) {
	t.Parallel()
	l, operator := keyed(t, nil)
	b := operator.newBase(t, "Shop", "")
	path := "/api/v1/knowledge-bases"
	routes := map[string]struct {
		method, path string
		body         any
		status       int
	}{
		"list":   {"GET", path, nil, 200},
		"search": {"POST", "/api/v1/knowledge-search", map[string]any{"query": "q", "knowledge_base_ids": []string{b}}, 200},
		"add":    {"POST", path + "/" + b + "/knowledge/manual", map[string]any{"content": "c"}, 200},
		"tag":    {"POST", path + "/" + b + "/tags", map[string]any{"name": ""}, 400},
		"create": {"POST", path, map[string]any{"name": "n"}, 201},
		"change": {"PUT", path + "/" + b, map[string]any{"name": "n"}, 200},
		"clear":  {"DELETE", path + "/" + b + "/knowledge", nil, 200},
	}
	for grant, open := range map[string][]string{"retrieve": {"list", "search"}, "ingest": {"add", "tag"}, "manage_kbs": {"create", "change"}, "chat": {},
		"full": {"list", "search", "add", "tag", "create", "change", "clear"}} {
		body := map[string]any{"name": grant, "capabilities": []string{grant}}
		if grant == "full" {
			body = map[string]any{"name": grant, "full_access": true}
		}
		_, token := operator.newKey(t, 1, body)
		c := l.with("X-API-Key", token)
		opens := map[string]bool{}
		for _, name := range open {
			opens[name] = true
		}
		for name, r := range routes {
			want := 403
			if opens[name] {
				want = r.status
			}
			if a := c.do(t, r.method, r.path, r.body); a.status != want {
				t.Errorf("a key that may %s: %s is HTTP %d, want %d: %s", grant, name, a.status, want, a.body)
			}
		}
	}
}
