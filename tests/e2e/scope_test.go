package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// toolsOf are the names of the tools that a request to the model offers.
func toolsOf(r scripted.Request) (out []string) {
	for _, d := range r.Tools {
		out = append(out, d.Function.Name)
	}
	return out
}

// TestReadme_ToolsOfTheAgent: the tools that the README names are offered when
// there is something for them to read, and not otherwise.
func TestReadme_ToolsOfTheAgent(t *testing.T) {
	t.Parallel()
	_, named, _ := strings.Cut(readme(t), "lets an agent search in rounds with ")
	named, _, _ = strings.Cut(named, "`/knowledge-chat` answers")
	var library, web []string
	for _, m := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(named, -1) {
		switch m[1] {
		case "web_search_enabled":
		case "web_search", "web_fetch":
			web = append(web, m[1])
		default:
			library = append(library, m[1])
		}
	}
	slices.Sort(web)
	if web = slices.Compact(web); len(library) != 7 || !slices.Equal(web, []string{"web_fetch", "web_search"}) {
		t.Fatalf("the README names %v and %v", library, web)
	}
	dir, model := t.TempDir(), scripted.New(t)
	model.Always(say("Fine."))
	engine := []any{map[string]any{"provider": "searxng", "base_url": model.URL}}
	serve := func(name string, config map[string]any) client {
		t.Helper()
		raw, err := json.Marshal(config)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := served(t, []string{"OPENAI_BASE_URL=" + model.URL, "OPENAI_MODEL=m"}, "--config", filepath.Join(dir, name+".json"), "--data", filepath.Join(dir, name), "serve", "--addr", "127.0.0.1:0")
		return client{base: p.hello["url"].(string)}
	}
	// Any program will do: it is not started before a table is asked for.
	full, bare := serve("full", map[string]any{"roots": []string{dir}, "web_search": engine, "data_binary": refoldBinary}), serve("bare", map[string]any{"data_binary": filepath.Join(dir, "none")})
	offered := func(c client, more map[string]any) []string {
		t.Helper()
		body := map[string]any{"query": "q", "disable_title": true}
		for k, v := range more {
			body[k] = v
		}
		c.chatWith(t, c.session(t), body).rest(t)
		all := model.Requests()
		return toolsOf(all[len(all)-1])
	}
	check := func(what string, got, want, never []string) {
		t.Helper()
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s: %s is not offered: %v", what, name, got)
			}
		}
		for _, name := range never {
			if slices.Contains(got, name) {
				t.Errorf("%s: %s is offered", what, name)
			}
		}
	}
	asked := map[string]any{"web_search_enabled": true}
	check("no base, the web not asked for", offered(full, nil), nil, append(library, web...))
	check("no base", offered(full, asked), web, library)
	base := full.newBase(t, "Shop", "")
	check("a base", offered(full, nil), library, web)
	check("a base and the web", offered(full, asked), append(library, web...), nil)
	check("a folder", offered(full, map[string]any{"workspace": dir}), []string{"read_file"}, library)
	check("a folder and a base", offered(full, map[string]any{"workspace": dir, "knowledge_base_ids": []string{base}}), append(library, "read_file"), web)
	bare.newBase(t, "Shop", "")
	check("no engine and no program for tables", offered(bare, asked), slices.DeleteFunc(slices.Clone(library), func(n string) bool { return n == "data_analysis" }), append(web, "data_analysis"))
	if a := full.do(t, "DELETE", "/api/v1/knowledge-bases/"+base, nil); a.status != 200 {
		t.Errorf("HTTP %d %s", a.status, a.body)
	}
	full.do(t, "GET", "/api/v1/knowledge-bases", nil).same(t, 200, `{"success":true,"data":[]}`)
	check("the base is gone", offered(full, nil), nil, library)
}

// TestScope: what the message names wins over what the agent is configured with,
// which is every base; the scope is that of the start, and no id from the model
// leads out of it.
func TestScope(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, scripted.Say(scripted.Gate(gate), call("c1", "knowledge_search", `{"queries":["refunds"]}`)))
	shop, other := l.newBase(t, "Shop", ""), l.newBase(t, "Other", "")
	l.added(t, shop, "shop.md", "Refunds are paid in gold.")
	hidden := l.added(t, other, "other.md", "Refunds are paid in silver.")
	id := l.session(t)
	turn := func(more map[string]any) *reader {
		body := ask("When are refunds paid?", "")
		for k, v := range more {
			body[k] = v
		}
		return l.chatWith(t, id, body)
	}
	r := turn(nil)
	r.until(t, isType("agent_query"))
	late := l.newBase(t, "Late", "") // after the start
	l.added(t, late, "late.md", "Refunds are paid in copper.")
	l.model.Push(scripted.Say(call("c2", "knowledge_search", `{"queries":["refunds"],"knowledge_base_ids":["`+late+`"]}`)))
	l.model.Push(say("In gold or silver."))
	close(gate)
	found := wire(r.rest(t))
	if !strings.Contains(found, "in gold") || !strings.Contains(found, "in silver") || strings.Contains(found, "in copper") || !strings.Contains(found, "is not part of the knowledge") {
		t.Errorf("without a name: %s", found)
	}
	piece := l.pieces(t, hidden.ID, "")[0].ID
	out := []scripted.Delta{call("c1", "knowledge_search", `{"queries":["refunds"]}`), call("c2", "knowledge_search", `{"queries":["refunds"],"knowledge_base_ids":["`+other+`"]}`),
		call("c3", "list_knowledge_chunks", `{"knowledge_id":"`+hidden.ID+`"}`), call("c4", "list_knowledge_chunks", `{"chunk_id":"`+piece+`"}`),
		call("c5", "get_document_info", `{"knowledge_ids":["`+hidden.ID+`"]}`), call("c6", "grep_chunks", `{"queries":["silver"]}`),
		call("c7", "database_query", `{"sql":"SELECT title FROM knowledges"}`), call("c8", "data_schema", `{"knowledge_id":"`+hidden.ID+`"}`)}
	for name, scope := range map[string]map[string]any{"a base": {"knowledge_base_ids": []string{shop}}, "a mention": {"mentioned_items": []map[string]any{{"type": "kb", "id": shop}}}} {
		l.model.Push(scripted.Say(out...))
		l.model.Push(say("In gold."))
		frames := turn(scope).rest(t)
		if text := wire(frames); !strings.Contains(text, "in gold") || strings.Contains(text, "in silver") || strings.Contains(text, "other.md") || !strings.Contains(text, "shop.md") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
