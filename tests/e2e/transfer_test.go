package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// transferred waits for the end of a copy or a move.
func (c client) transferred(t testing.TB, path string) map[string]any {
	t.Helper()
	ctx := guarded(t)
	for {
		var p map[string]any
		c.do(t, "GET", path, nil).data(t, 200, &p)
		if p["status"] == "completed" || p["status"] == "failed" {
			return p
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: %v", path, p)
		}
	}
}

// TestTransfer: documents are moved, bases copied, in the background; other tenants
// see nothing of it.
func TestTransfer(t *testing.T) {
	t.Parallel()
	l, one := keyed(t, nil)
	shop, archive, faq := one.newBase(t, "Shop", ""), one.newBase(t, "Archive", ""), one.newBase(t, "Questions", "faq")
	a, b := one.added(t, shop, "anvils.md", "# Anvils\n\nThe anvil weighs a ton."), one.added(t, shop, "bells.md", "# Bells\n\nThe bell rings.")
	move := func(more map[string]any) answer {
		body := map[string]any{"knowledge_ids": []string{a.ID}, "source_kb_id": shop, "target_kb_id": archive, "mode": "reuse_vectors"}
		for k, v := range more {
			body[k] = v
		}
		return one.do(t, "POST", "/api/v1/knowledge/move", body)
	}
	for reason, in := range map[string]map[string]any{"same_knowledge_base": {"target_kb_id": shop}, "other_type": {"target_kb_id": faq}, "bad_request": {"mode": "quickly"}} {
		move(in).refused(t, 400, 1000, reason, "")
	}
	move(map[string]any{"knowledge_ids": []string{}}).refused(t, 400, 1000, "bad_request", "1 to 1000")
	move(map[string]any{"target_kb_id": a.ID}).refused(t, 404, 1003, "knowledge_base_not_found", "")
	var task struct {
		ID    string `json:"task_id"`
		Count int    `json:"knowledge_count"`
	}
	move(map[string]any{"knowledge_ids": []string{a.ID, a.ID}}).data(t, 200, &task)
	if task.Count != 1 {
		t.Errorf("%+v", task)
	}
	path := "/api/v1/knowledge/move/progress/" + task.ID
	one.transferred(t, path)
	one.do(t, "GET", path, nil).same(t, 200, fmt.Sprintf(`{"success":true,"data":{"task_id":%q,"source_kb_id":%q,"target_kb_id":%q,"status":"completed","progress":100,"total":1,"processed":1,"failed":0,
		"message":"Done","error":"","created_at":"<number>","updated_at":"<number>"}}`, task.ID, shop, archive))
	one.do(t, "GET", "/api/v1/knowledge/"+a.ID, nil).refused(t, 404, 1003, "knowledge_not_found", "")
	if got := one.finds(t, archive, "anvil", 1); got[0].Document == a.ID {
		t.Errorf("%+v", got)
	}
	one.finds(t, shop, "anvil", 0)

	// A copy of the whole, into a new base; the same task twice is refused.
	var copied struct {
		Task   string `json:"task_id"`
		Target string `json:"target_id"`
	}
	copyTask := map[string]any{"source_id": shop, "task_id": "copy-1"}
	one.do(t, "POST", "/api/v1/knowledge-bases/copy", copyTask).data(t, 200, &copied)
	if copied.Task != "copy-1" {
		t.Errorf("%+v", copied)
	}
	one.do(t, "POST", "/api/v1/knowledge-bases/copy", copyTask).refused(t, 409, 1005, "task_exists", "")
	progress := "/api/v1/knowledge-bases/copy/progress/"
	if p := one.transferred(t, progress+"copy-1"); p["target_id"] != copied.Target || p["total"] != 1.0 || p["progress"] != 100.0 {
		t.Errorf("%v", p)
	}
	one.finds(t, copied.Target, "bell", 1)
	one.finds(t, shop, "bell", 1)
	one.do(t, "GET", "/api/v1/knowledge/"+b.ID, nil).data(t, 200, &struct{}{})
	// Into one that has it: nothing is there twice.
	one.do(t, "POST", "/api/v1/knowledge-bases/copy", map[string]any{"source_id": shop, "target_id": copied.Target}).data(t, 200, &copied)
	if p := one.transferred(t, progress+copied.Task); p["status"] != "completed" {
		t.Errorf("%v", p)
	}
	one.finds(t, copied.Target, "bell", 1)
	// An empty base is copied, too.
	one.do(t, "POST", "/api/v1/knowledge-bases/copy", map[string]any{"source_id": faq}).data(t, 200, &copied)
	if p := one.transferred(t, progress+copied.Task); p["total"] != 0.0 || p["progress"] != 100.0 {
		t.Errorf("%v", p)
	}

	two := one.newTenant(t, "Acme")
	for _, p := range []string{path, progress + "copy-1", "/api/v1/knowledge/move/progress/copy-1", progress + task.ID} {
		if a := two.do(t, "GET", p, nil); a.status != 404 || strings.Contains(a.body, shop) {
			t.Errorf("%s of another tenant: %d %s", p, a.status, a.body)
		}
	}
	one.do(t, "GET", progress+task.ID, nil).refused(t, 404, 1003, "task_not_found", "") // a move is no copy
	// After a restart both are still there to be asked about.
	l.p.kill(t)
	l.up(t)
	l.with("X-API-Key", operatorKey).transferred(t, path)
}
