package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// putFile sends a file; a file that the base has already is as good as sent.
func (c client) putFile(ctx context.Context, base, name, content string) error {
	out, err := c.sendFile(ctx, "/api/v1/knowledge-bases/"+base+"/knowledge/file", name, []byte(content))
	if err != nil {
		return err
	}
	if out.status != 200 && !(out.status == 409 && strings.Contains(out.body, "duplicate_file")) {
		return fmt.Errorf("upload %s: HTTP %d %s", name, out.status, out.body)
	}
	return nil
}

// again repeats f until it works; only the death of the server excuses it.
func (x *phoenix) again(ctx context.Context, f func(client) error) error {
	for {
		c, life, err := x.client(ctx)
		if err != nil {
			return err
		}
		if err = f(c); err == nil {
			return nil
		}
		if ctx.Err() != nil || !x.died(life) {
			return err
		}
	}
}

// TestIngestCrash kills the process at 30 random moments while it takes in 200
// files. In the end each of them is there and was indexed exactly once.
func TestIngestCrash(t *testing.T) {
	t.Parallel()
	const files, deaths = 200, 30
	dir := t.TempDir()
	x := newPhoenix(t, 11, settings{Data: dir + "/data"})
	ctx := guarded(t)
	var base struct{ ID string }
	x.p.client().do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": "Files"}).data(t, 201, &base)
	x.allow(deaths)

	var work sync.WaitGroup
	names := make(chan int)
	for range 4 {
		work.Go(func() {
			for n := range names {
				text := fmt.Sprintf("# File %d\n\nThe word of file %d is kennwort%04d.\n\n%s", n, n, n, strings.Repeat(fmt.Sprintf("Line of file %d, 第%d行。\n\n", n, n), 20+n))
				if err := x.again(ctx, func(c client) error { return c.putFile(ctx, base.ID, fmt.Sprintf("file-%04d.md", n), text) }); err != nil {
					t.Error(err)
					return
				}
				x.tick(3)
			}
		})
	}
	for n := range files {
		select {
		case names <- n:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	close(names)
	work.Wait()

	// What is looked at is counted, so that deaths go on until all is done.
	page := func(c client, query string) (rows []doc, total int, err error) {
		a, err := c.try(ctx, "GET", "/api/v1/knowledge-bases/"+base.ID+"/knowledge?"+query, nil)
		if err != nil {
			return nil, 0, err
		}
		var body struct {
			Data  []doc
			Total int
		}
		if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != 200 {
			return nil, 0, fmt.Errorf("HTTP %d %s", a.status, a.body)
		}
		return body.Data, body.Total, nil
	}
	for done, killed := 0, 0; done < files || killed < deaths; {
		if err := x.again(ctx, func(c client) (err error) {
			_, done, err = page(c, "page_size=1&parse_status=completed")
			return err
		}); err != nil {
			t.Fatalf("%d files are done after %d deaths: %v", done, killed, err)
		}
		x.tick(1)
		x.mu.Lock()
		killed = x.kills
		x.mu.Unlock()
	}
	c, _, err := x.client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rows, total, err := page(c, "page_size=1000")
	if err != nil || total != files {
		t.Fatalf("%d files: %v", total, err)
	}
	seen := map[string]bool{}
	for _, d := range rows {
		if d.Status != "completed" || d.Chunks == 0 || seen[d.FileName] {
			t.Errorf("file %+v", d)
		}
		seen[d.FileName] = true
		var body struct{ Total int }
		if err := json.Unmarshal([]byte(c.do(t, "GET", "/api/v1/chunks/"+d.ID+"?page_size=1", nil).body), &body); err != nil || body.Total != d.Chunks {
			t.Errorf("%s has %d pieces in the index, and %d on the record: %v", d.FileName, body.Total, d.Chunks, err)
		}
	}
	indexed := map[string]int{}
	claims := 0
	for _, e := range jsonLines(t, refold(t, "--data", x.s.Data, "events", "--category", "document").stdout) {
		switch e["type"] {
		case "Indexed":
			indexed[fmt.Sprint(e["stream"])]++
		case "StageStarted":
			claims++
		}
	}
	for id, n := range indexed {
		if n != 1 {
			t.Errorf("%s was indexed %d times", id, n)
		}
	}
	if len(indexed) != files {
		t.Errorf("%d files were indexed", len(indexed))
	}
	t.Logf("%d deaths, %d claims for %d files", x.kills, claims, files)
}
