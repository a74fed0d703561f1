package api

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/key"
	"refold/projections"
)

// routes lists the routes under /api/v1.
func routes(t *testing.T) (*API, []string) {
	a := &API{}
	var out []string
	err := chi.Walk(a.Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if strings.HasPrefix(route, "/api/v1/") {
			out = append(out, method+" "+route)
		}
		return nil
	})
	if err != nil || len(out) < 20 {
		t.Fatal(out, err)
	}
	return a, out
}

// Every route has a policy, and is found by the request that it answers.
func TestPolicies_AreWhole(t *testing.T) {
	a, all := routes(t)
	for _, route := range all {
		if _, ok := policies[route]; !ok {
			t.Errorf("%s has no policy, so it is closed to every API key; add a line to policies", route)
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{", "", "}", "").Replace(path)
		if got := a.routeOf(httptest.NewRequest(method, path, nil)); got != route {
			t.Errorf("%s %s is taken for %q", method, path, got)
		}
	}
	for _, path := range []string{"/api/v1/nothing", "/healthz/x"} {
		if got := a.routeOf(httptest.NewRequest("GET", path, nil)); got != "" {
			t.Errorf("%s is taken for %q", path, got)
		}
	}
	if got := a.routeOf(httptest.NewRequest("GET", "/api/v1/sessions/a%2Fb", nil)); got != "GET /api/v1/sessions/{session}" {
		t.Errorf("an escaped id is taken for %q", got)
	}
}

func TestPermitted(t *testing.T) {
	with := func(g key.Grant, route string) bool {
		return permitted(&principal{key: &projections.KeyEntry{Grant: g}, route: route}) == nil
	}
	chat, full := key.Grant{Capabilities: []string{key.Chat}}, key.Grant{FullAccess: true}
	_, all := routes(t)
	for _, route := range append(all, "GET /api/v1/unknown") {
		policy, listed := policies[route]
		if permitted(&principal{route: route}) != nil {
			t.Errorf("%s is closed to the operator", route)
		}
		if want := listed && policy != noKey; with(full, route) != want {
			t.Errorf("%s and full access: %v", route, !want)
		}
		if want := policy == key.Chat || policy == everyKey; with(chat, route) != want {
			t.Errorf("%s and chat: %v", route, !want)
		}
		if want := policy == everyKey; with(key.Grant{}, route) != want {
			t.Errorf("%s and nothing: %v", route, !want)
		}
	}
	// Approvals are for people: behaviours 7.3.
	for _, route := range all {
		if strings.Contains(route, "/agent/") && with(full, route) {
			t.Errorf("%s is open to an API key", route)
		}
	}
}

func TestLimiter(t *testing.T) {
	var l limiter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10 { // five seconds' worth
		if wait := l.take("a", false, 2, now); wait != 0 {
			t.Fatalf("request %d waits %s", i, wait)
		}
	}
	for range 3 { // a refused request takes nothing
		if wait := l.take("a", false, 2, now); wait != 500*time.Millisecond {
			t.Fatal(wait)
		}
	}
	if l.take("b", false, 2, now) != 0 || l.take("a", true, 2, now) != 0 {
		t.Fatal("buckets are shared")
	}
	now = now.Add(500 * time.Millisecond)
	if l.take("a", false, 2, now) != 0 || l.take("a", false, 2, now) == 0 {
		t.Fatal("half a second is one request")
	}
	if l.take("slow", false, 0.01, now) != 0 || math.Ceil(l.take("slow", false, 0.01, now).Seconds()) != 100 {
		t.Fatal("less than one a second")
	}
	for i := range maxBuckets + 5 {
		l.take(fmt.Sprint(i), false, 1000, now)
	}
	if len(l.buckets) > maxBuckets {
		t.Fatalf("%d buckets", len(l.buckets))
	}
}

func TestVersions(t *testing.T) {
	for header, want := range map[string][]int64{`"3"`: {3}, `"3", "4"`: {3, 4}, `W/"3"`: {}, `3`: {}, `"x"`: {}, `"03"`: {}, `"3`: {}, `*`: nil} {
		r := httptest.NewRequest("PUT", "/", nil)
		r.Header.Set("If-Match", header)
		if got := versions(r); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v", header, got)
		}
	}
	if versions(httptest.NewRequest("PUT", "/", nil)) != nil {
		t.Error("without If-Match")
	}
}

func TestFlights(t *testing.T) {
	var f flights
	leave, busy := f.enter("k")
	if leave == nil || busy != nil {
		t.Fatal("busy")
	}
	if other, b := f.enter("other"); b != nil {
		t.Fatal("keys are shared")
	} else {
		other()
	}
	_, busy = f.enter("k")
	select {
	case <-busy:
		t.Fatal("over")
	default:
	}
	leave()
	leave() // harmless
	<-busy
	if again, busy := f.enter("k"); busy != nil || len(f.open) != 1 {
		t.Fatal("not free")
	} else {
		again()
	}
}
