package api

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func fingerprint(t *testing.T, method, path, contentType, body string) string {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	digest, done, err := fingerprintOf(httptest.NewRecorder(), r)
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := io.ReadAll(r.Body); err != nil || string(again) != body {
		t.Fatalf("%d bytes are left of %d, %v", len(again), len(body), err)
	}
	return digest
}

func TestFingerprint(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const kind = "application/json"
	seen := map[string]string{}
	for _, c := range [][3]string{{"POST", "/a", ""}, {"PUT", "/a", ""}, {"POST", "/b", ""}, {"POST", "/a?x=1", ""}, {"POST", "/a", "{}"}, {"POST", "/a", "{ }"},
		{"POST", "/a", strings.Repeat("x", maxInMemory)}, {"POST", "/a", strings.Repeat("x", maxInMemory+1)}, {"POST", "/a", strings.Repeat("x", 3*maxInMemory)}} {
		digest := fingerprint(t, c[0], c[1], kind, c[2])
		name := c[0] + c[1] + c[2][:min(len(c[2]), 9)]
		if other, dup := seen[digest]; dup {
			t.Errorf("%s is taken for %s", name, other)
		}
		seen[digest] = name
		if digest != fingerprint(t, c[0], c[1], kind, c[2]) {
			t.Errorf("%s has two", name)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

// The boundary is chosen anew each time a form is sent; it means nothing.
func TestFingerprint_Forms(t *testing.T) {
	form := func(boundary, name, content string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if err := w.SetBoundary(boundary); err != nil {
			t.Fatal(err)
		}
		part, err := w.CreateFormFile("file", name)
		if err == nil {
			_, err = io.WriteString(part, content)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.FormDataContentType(), b.String()
	}
	of := func(boundary, name, content string) string {
		kind, body := form(boundary, name, content)
		return fingerprint(t, "POST", "/", kind, body)
	}
	if of("one", "a", "x") != of("two", "a", "x") {
		t.Error("the boundary counts")
	}
	if of("one", "a", "x") == of("one", "b", "x") || of("one", "a", "x") == of("one", "a", "y") {
		t.Error("name or content do not count")
	}
	const kind = "multipart/form-data; boundary=x"
	if fingerprint(t, "POST", "/", kind, "no form") == fingerprint(t, "POST", "/", kind, "nor this") {
		t.Error("what is no form counts for nothing")
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("--x\r\nA: b\r\n\r\ncut off"))
	r.Header.Set("Content-Type", kind)
	if _, done, err := fingerprintOf(httptest.NewRecorder(), r); err == nil {
		done()
		t.Error("a form that is cut off is taken")
	}
}
