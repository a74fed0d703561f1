package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"refold/handlers"
)

// Fetch implements handlers.Fetcher. robots.txt is not asked: a person named
// this one file.
func (c *Client) Fetch(ctx context.Context, address string) (handlers.Fetched, error) {
	u, err := handlers.CanonicalURL(address)
	if err != nil {
		return handlers.Fetched{}, &handlers.WebError{Code: "invalid_url", Message: sentence(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	a, err := c.get(ctx, u, handlers.MaxFetched, nil)
	if err != nil {
		cancel()
		return handlers.Fetched{}, err
	}
	f := handlers.Fetched{URL: a.url.String(), Size: -1, Content: &content{a: a, cancel: cancel}}
	if encoding := a.response.Header.Get("Content-Encoding"); encoding == "" || encoding == "identity" {
		f.Size = a.response.ContentLength
	}
	if f.Size > handlers.MaxFetched {
		f.Content.Close()
		return handlers.Fetched{}, tooLarge(a.url)
	}
	f.Name, f.Type = nameOf(a.url, a.response.Header)
	return f, nil
}

func tooLarge(u *url.URL) *handlers.WebError {
	return &handlers.WebError{Code: "too_large", Message: fmt.Sprintf("%s is larger than %d MiB, which is the most that is fetched.", place(u, 0), handlers.MaxFetched>>20)}
}

// content gives the bytes of a file, with errors that say what happened.
type content struct {
	a      *answer
	cancel context.CancelFunc
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.a.body.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.Is(err, errCut):
		return n, tooLarge(c.a.url)
	}
	code, why := failure(err)
	if code == "connection_failed" {
		code, why = "read_failed", "it broke off, or does not arrive as it is announced"
	}
	return n, &handlers.WebError{Code: code, Message: fmt.Sprintf("%s could not be read: %s.", place(c.a.url, 0), why), Retryable: true}
}

func (c *content) Close() error {
	c.a.close()
	c.cancel()
	return nil
}

// extensions of the types that can be read, where a name has none that fits.
var extensions = map[string]string{
	"text/html": "html", "application/xhtml+xml": "html", "text/plain": "txt", "text/markdown": "md", "text/x-markdown": "md", "text/csv": "csv",
	"application/json": "json", "application/pdf": "pdf", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
}

// vague are types that servers send for anything.
var vague = map[string]bool{"": true, "application/octet-stream": true, "text/plain": true, "binary/octet-stream": true, "application/x-download": true, "application/force-download": true}

// nameOf gives a file a name and a type: by Content-Disposition, else by the
// last part of its path; the Content-Type decides where it says something.
func nameOf(u *url.URL, h http.Header) (name, kind string) {
	if _, p, err := mime.ParseMediaType(h.Get("Content-Disposition")); err == nil {
		name = p["filename"]
	}
	if clean(name) == "" {
		name = path.Base(u.Path)
	}
	if name = clean(name); name == "" {
		name = clean(u.Hostname())
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	kind = strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
	known := extensions[media]
	if strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || len(kind) > 8 {
		kind = ""
	}
	if known == "" || kind != "" && vague[media] || kind == known || kind == "htm" && known == "html" || kind == "markdown" && known == "md" {
		if kind == "" {
			kind = known
		}
	} else if !vague[media] || kind == "" {
		kind = known
	}
	if kind != "" && !strings.HasSuffix(strings.ToLower(name), "."+kind) {
		name += "." + kind
	}
	return name, kind
}

// clean makes a file name of what a server says: no directories, nothing
// invisible, at most 120 characters.
func clean(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '\\' {
			return '/'
		}
		if !unicode.IsPrint(c) || strings.ContainsRune(`<>:"|?*`, c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(name, ""))
	name = strings.Trim(path.Base("/"+name), " ./")
	ext := path.Ext(name)
	if len([]rune(ext)) > 10 {
		ext = ""
	}
	return clip(strings.TrimSuffix(name, ext), 110) + ext
}
