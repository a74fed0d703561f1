package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"refold/api"
	"refold/tests/openapi"
)

// checker compares what the tests send and get with the OpenAPI document.
var checker = func() *openapi.Checker {
	c, err := openapi.New(api.Document)
	if err != nil {
		panic("the OpenAPI document: " + err.Error())
	}
	return c
}()

// checked fails a run in which traffic did not fit the document, and names the
// operations that a run of all tests has not called.
func checked(code int) int {
	problems := checker.Problems()
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "--- FAIL: openapi.json:", p)
	}
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() == "" {
		for _, op := range checker.Unseen() {
			fmt.Println("openapi.json: no test calls", op)
		}
	}
	fmt.Printf("openapi.json: %d requests checked, %d problems\n", checker.Seen(), len(problems))
	if len(problems) > 0 && code == 0 {
		code = 1
	}
	return code
}

// TestPages: what is there beside the API, also on a server with a key; numbers
// are for the operator.
func TestPages(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef"
	l := newLab(t, func(s *settings) { s.Key = key })
	for path, part := range map[string]string{"/": "createSession", "/openapi.json": `"openapi": "3.1.0"`, "/docs": "createSession", "/health": "ok", "/healthz": "ok", "/readyz": "ready"} {
		if a := l.do(t, "GET", path, nil); path != "/readyz" && (a.status != 200 || !strings.Contains(a.body, part)) {
			t.Errorf("GET %s: HTTP %d %.200s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/health", "/healthz"} {
		if a := l.do(t, "HEAD", path, nil); a.status != 200 || a.body != "" {
			t.Errorf("HEAD %s: HTTP %d %q", path, a.status, a.body)
		}
	}
	if a := l.do(t, "GET", "/metrics", nil); a.status != 401 {
		t.Errorf("numbers without the key: HTTP %d", a.status)
	}
	if a := l.with("Authorization", "Bearer "+key).do(t, "GET", "/metrics", nil); a.status != 200 || !strings.Contains(a.body, "refold_projection_lag_seconds") {
		t.Errorf("numbers: HTTP %d %.300s", a.status, a.body)
	}
}
