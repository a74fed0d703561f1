package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"refold/api"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/tenant"
	"refold/handlers"
)

// send adds a source to a base. If it is there already the error is an *apiError
// whose Same is the document.
func (c *client) send(ctx context.Context, base string, s source) (docRow, error) {
	var row docRow
	to := "/api/v1/knowledge-bases/" + url.PathEscape(base) + "/knowledge/"
	if s.url {
		err := c.call(ctx, http.MethodPost, to+"url", map[string]any{"url": s.path, "folder_path": s.folder, "channel": "cli"}, &row)
		return row, err
	}
	f, err := os.Open(s.path)
	if err != nil {
		return row, err
	}
	defer f.Close()
	body, kind := formOf(f, s)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+to+"file", body)
	if err != nil {
		return row, err
	}
	req.Header.Set("Content-Type", kind)
	res, err := c.answer(req)
	if err != nil {
		return row, err
	}
	defer res.Body.Close()
	err = json.NewDecoder(res.Body).Decode(&struct {
		Data any `json:"data"`
	}{&row})
	return row, err
}

// formOf is a form with a file, which is read as it is sent.
func formOf(f io.Reader, s source) (io.Reader, string) {
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		err := errors.Join(form.WriteField("channel", "cli"), form.WriteField("folder_path", s.folder))
		if err == nil {
			var part io.Writer
			if part, err = form.CreateFormFile("file", filepath.Base(s.path)); err == nil {
				if _, err = io.Copy(part, f); err == nil {
					err = form.Close()
				}
			}
		}
		w.CloseWithError(err)
	}()
	return r, form.FormDataContentType()
}

// answer sends a request of this client's and refuses errors.
func (c *client) answer(req *http.Request) (*http.Response, error) {
	req.Header.Set(api.LocalKeyHeader, c.key)
	req.Header.Set(api.TenantHeader, strconv.FormatInt(c.tenant, 10))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	return nil, c.refused(res.StatusCode, raw)
}

// sameAs is the document that an answer says is there already, without an id if it
// says something else.
func sameAs(status int, raw []byte) (same docRow, message string) {
	var body struct {
		Code    any    `json:"code"`
		Message string `json:"message"`
		Data    docRow `json:"data"`
	}
	if status != http.StatusConflict || json.NewDecoder(bytes.NewReader(raw)).Decode(&body) != nil {
		return docRow{}, ""
	}
	return body.Data, body.Message
}

// How documents are waited for.
const (
	askEvery = 300 * time.Millisecond
	askAbout = 100 // documents at once
)

// await waits until nothing more is done for the documents, and says how each
// ended.
func (a *adder) await() error {
	if a.link.app != nil {
		a.resume()
	}
	a.bar = a.newBar("indexed", len(a.paths))
	defer a.bar.end()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for len(a.paths) > 0 {
		for ids := range slices.Chunk(slices.Sorted(maps.Keys(a.paths)), askAbout) {
			rows, err := a.ask(ids)
			if err != nil {
				return err
			}
			for _, id := range ids {
				row, there := rows[id]
				if there && !row.settled() {
					continue
				}
				o := outcome{Path: a.paths[id], ID: id, Status: row.Status, Chunks: row.Chunks}
				switch {
				case !there:
					o.Status, o.Error = "failed", "somebody has deleted it meanwhile"
				case row.Status == "failed":
					o.Error = row.Error
				}
				delete(a.paths, id)
				a.report(o)
			}
		}
		if len(a.paths) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
	return nil
}

func (a *adder) ask(ids []string) (map[string]docRow, error) {
	var rows []docRow
	if err := a.patient(func(c *client) error {
		return c.call(a.ctx, http.MethodGet, "/api/v1/knowledge/batch?"+url.Values{"ids": ids}.Encode(), nil, &rows)
	}); err != nil {
		return nil, err
	}
	out := map[string]docRow{}
	for _, row := range rows {
		out[row.ID] = row
	}
	return out, nil
}

// resume lets the server in this process work on documents that an earlier one has
// left: it looks after new ones by itself.
func (a *adder) resume() {
	for id := range a.paths {
		a.link.app.Ingest.Wake(handlers.Owed{Base: a.base.ID, Stream: event.Stream{Tenant: tenant.Name(a.cli.Tenant), Category: knowledge.Category, ID: id}})
	}
}
