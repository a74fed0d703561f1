//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"sync"
	"time"
)

// ingest measures how fast files become passages that can be found: 1,000 Markdown
// files of 10 KB, uploaded by eight clients to a server with SQLite, by words.
func ingest(t *T) {
	const files, clients = 1000, 8
	s := t.serve(t.TempDir(), t.model(1))
	var base struct{ Data struct{ ID string } }
	t.check(call("POST", s.base()+"/knowledge-bases", "application/json", []byte(`{"name":"Files"}`), &base))
	text := newShelf()
	bodies := make([][]byte, files)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, "# File %d\n\n", i)
		for len(bodies[i]) < 10<<10 {
			bodies[i] = fmt.Appendf(bodies[i], "## Part\n\n%s\n\n", text.text(80, i%2 == 0))
		}
	}
	before, start := s.cpu(), time.Now()
	next := make(chan int, files)
	for i := range files {
		next <- i
	}
	close(next)
	var work sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range clients {
		work.Go(func() {
			for i := range next {
				var b bytes.Buffer
				w := multipart.NewWriter(&b)
				part, err := w.CreateFormFile("file", fmt.Sprintf("file-%d.md", i))
				if err == nil {
					_, err = part.Write(bodies[i])
				}
				if err == nil {
					err = w.Close()
				}
				if err == nil {
					err = call("POST", s.base()+"/knowledge-bases/"+base.Data.ID+"/knowledge/file", w.FormDataContentType(), b.Bytes(), nil)
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	work.Wait()
	t.check(failed)
	for {
		var page struct{ Total int }
		t.check(call("GET", s.base()+"/knowledge-bases/"+base.Data.ID+"/knowledge?page_size=1&parse_status=completed", "", nil, &page))
		if page.Total == files {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start).Seconds()
	t.add("1,000 Markdown files of 10 KB taken in, SQLite", "", files/took, atLeast(50, "/s"), "%.1f ms of CPU each", (s.cpu()-before)/files)
}

// call sends a request and decodes the answer, which must be a success.
func call(method, url, kind string, body []byte, into any) error {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: HTTP %d %.300s", method, url, res.StatusCode, raw)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}
