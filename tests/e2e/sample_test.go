package e2e

import (
	"fmt"
	"testing"
	"time"

	pages "refold/infra/handbook"
)

// TestSample_FinishedAfterACrash: a server that dies while it makes the sample
// knowledge base makes the rest of it at its next start, and what a person has
// deleted stays deleted.
func TestSample_FinishedAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(s *settings) { s.Sample = true })
	type row struct {
		ID   string
		Name string `json:"file_name"`
	}
	var bases []struct{ ID, Name string }
	list := func() (docs []row) {
		l.do(t, "GET", "/api/v1/knowledge-bases", nil).data(t, 200, &bases)
		if len(bases) > 0 {
			l.do(t, "GET", "/api/v1/knowledge-bases/"+bases[0].ID+"/knowledge?page_size=1000", nil).data(t, 200, &docs)
		}
		return docs
	}
	await := func(n int) (docs []row) {
		t.Helper()
		ctx := guarded(t)
		for docs = list(); len(docs) < n; docs = list() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%d files, and no more", len(docs))
			}
		}
		return docs
	}
	// It dies as soon as some, and then some more, of it is there.
	for n := range 3 {
		await(n + 1)
		l.p.kill(t)
		l.up(t)
	}
	files := pages.Files()
	docs := await(len(files))
	seen := map[string]bool{}
	for _, d := range docs {
		seen[d.Name] = true
	}
	if len(bases) != 1 || bases[0].Name != pages.Name || len(docs) != len(files) || len(seen) != len(files) {
		t.Fatalf("%d bases, %d of %d files", len(bases), len(seen), len(files))
	}
	l.do(t, "DELETE", "/api/v1/knowledge/"+docs[0].ID, nil)
	l.p.kill(t)
	l.up(t)
	l.settled(t, docs[1].ID)
	if got := len(list()); got != len(files)-1 {
		t.Errorf("%d files after one was deleted", got)
	}
	l.do(t, "DELETE", fmt.Sprintf("/api/v1/knowledge-bases/%s", bases[0].ID), nil)
	l.p.kill(t)
	l.up(t)
	if list(); len(bases) != 0 {
		t.Errorf("a base that was deleted is there again")
	}
}
