package web

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const limit = 1 << 20

// bomb is gzip of n MiB of one character, in members of 1 MiB.
func bomb(n int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(bytes.Repeat([]byte("0"), 1<<20))
	z.Close()
	return bytes.Repeat(b.Bytes(), n)
}

func TestP74_BodyWithoutEndOrThatInflates(t *testing.T) {
	n := newInternet(t)
	n.at("bodies.example", "93.184.216.34", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		line := []byte(strings.Repeat("line ", 200))
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		case "/damaged":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("this is not gzip"))
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb(1024))
		case "/empty-members":
			w.Header().Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			gzip.NewWriter(&b).Close()
			for {
				if _, err := w.Write(b.Bytes()); err != nil {
					return
				}
			}
		case "/lies":
			conn, buf, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(buf, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n")
			for range 50 << 10 {
				if _, err := buf.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		case "/short":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "the first part")
		}
	})
	c := n.client(Options{MaxPage: limit})
	for path, want := range map[string]struct {
		partial  bool
		min, max int
		code     string
	}{
		"/endless": {true, limit - 10, limit, ""},
		"/gzip":    {true, limit, limit, ""},
		"/damaged": {code: "read_failed"},
		"/lies":    {code: "read_failed"}, // ten NUL bytes
		"/short":   {true, 14, 14, ""}, "/empty-members": {code: "empty_content"},
	} {
		page, err := c.Page(t.Context(), "http://bodies.example"+path)
		if got := code(err); want.code != "" && got != want.code || want.code == "" && err != nil {
			t.Errorf("%s: %v (%s)", path, err, got)
		}
		if page.Partial != want.partial || len(page.Text) < want.min || len(page.Text) > want.max {
			t.Errorf("%s: partial %v, %d bytes", path, page.Partial, len(page.Text))
		}
	}
	f, err := c.Fetch(t.Context(), "http://bodies.example/endless")
	if err != nil {
		t.Fatal(err)
	}
	f.Content.(*content).a.body = &capped{f.Content.(*content).a.body, limit} // the same as at MaxFetched, sooner
	defer f.Content.Close()
	size, err := io.Copy(io.Discard, f.Content)
	if code(err) != "too_large" || size != limit {
		t.Errorf("an endless file: %d bytes, %v", size, err)
	}
}

func TestP74_MemoryStaysNearTheLimit(t *testing.T) {
	packed := bomb(1024)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, end, err := inflate(bytes.NewReader(packed), "gzip", limit)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	data, partial, err := readBounded(r, limit)
	runtime.ReadMemStats(&after)
	if err != nil || !partial || len(data) != limit {
		t.Errorf("%d bytes, partial %v, %v", len(data), partial, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

func TestInflate(t *testing.T) {
	text := strings.Repeat("Grüße, 你好. ", 1000)
	pack := map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	}
	packed := func(s string, names ...string) io.Reader {
		for _, name := range names {
			var b bytes.Buffer
			w := pack[name](&b)
			io.WriteString(w, s)
			w.Close()
			s = b.String()
		}
		return strings.NewReader(s)
	}
	for _, names := range [][]string{{"gzip"}, {"deflate"}, {"br"}, {"zstd"}, {"br", "gzip"}, {}} {
		r, end, err := inflate(packed(text, names...), strings.Join(names, ", "), limit)
		if err != nil {
			t.Fatal(err)
		}
		data, partial, err := readBounded(r, limit)
		end()
		if err != nil || partial || string(data) != text {
			t.Errorf("%v: %d bytes, %v %v", names, len(data), partial, err)
		}
		r, end, _ = inflate(packed(strings.Repeat("0", 3*limit), names...), strings.Join(names, ", "), limit)
		data, partial, _ = readBounded(r, limit)
		end()
		if !partial || len(data) != limit {
			t.Errorf("%v: a bomb gave %d bytes, partial %v", names, len(data), partial)
		}
	}
	for _, bad := range []string{"lzw", "gzip, gzip, gzip"} {
		if _, _, err := inflate(packed(text, "gzip", "gzip", "gzip"), bad, limit); err == nil {
			t.Errorf("%s was inflated", bad)
		}
	}
	exact := &capped{strings.NewReader("12345"), 5}
	if data, err := io.ReadAll(exact); string(data) != "12345" || err != nil {
		t.Errorf("%q %v", data, err)
	}
	if _, err := io.ReadAll(&capped{strings.NewReader("123456"), 5}); !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}
