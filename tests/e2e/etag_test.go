package e2e

import (
	"strings"
	"testing"
)

// TestETag: an update that names what it has seen is refused if that has
// changed; one that names nothing is taken, as ever.
func TestETag(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	id := l.session(t)
	path := "/api/v1/sessions/" + id
	tag := func() string { return l.do(t, "GET", path, nil).head.Get("ETag") }
	put := func(match, title string) answer {
		c := l.client
		if match != "" {
			c = c.with("If-Match", match)
		}
		return c.do(t, "PUT", path, map[string]any{"title": title})
	}
	first := tag()
	if first == "" || first != tag() {
		t.Fatalf("ETag %q", first)
	}
	a := put(first, "two")
	if a.status != 200 || a.head.Get("ETag") == first || a.head.Get("ETag") != tag() {
		t.Fatalf("HTTP %d, ETag %q: %s", a.status, a.head.Get("ETag"), a.body)
	}
	for _, stale := range []string{first, "W/" + tag(), `"x"`, "x"} {
		put(stale, "three").refused(t, 412, 1005, "changed_meanwhile", "read it again")
	}
	second := tag()
	l.chat(t, id, "q").rest(t)
	put(second, "three").refused(t, 412, 1005, "changed_meanwhile", "ETag")
	for _, good := range []string{"", "*", "TAG", first + ", TAG"} {
		good = strings.ReplaceAll(good, "TAG", tag())
		if a := put(good, "four"); a.status != 200 {
			t.Errorf("If-Match %s: HTTP %d %s", good, a.status, a.body)
		}
	}
	l.with("If-Match", first).do(t, "DELETE", path, nil).refused(t, 412, 1005, "changed_meanwhile", "")
	if a := l.with("If-Match", tag()).do(t, "DELETE", path, nil); a.status != 200 {
		t.Errorf("HTTP %d %s", a.status, a.body)
	}
	put("", "five").refused(t, 404, 1003, "session_not_found", "")
}
