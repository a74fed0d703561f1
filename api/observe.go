package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Answered is an answer, for metrics. Route is the pattern of the route, "" if
// there is none. Streamed tells that it was a feed, so that Took says nothing.
type Answered struct {
	Method, Route string
	Status        int
	Bytes         int
	Took          time.Duration
	Streamed      bool
}

// noted is what becomes known of a request while it is answered.
type noted struct {
	tenant, by, run string
	// rest, if set, goes on with the answer after the handler and all that is
	// between it and recoverPanic have returned.
	rest func()
}

func notes(r *http.Request) *noted {
	if n, ok := r.Context().Value(notesKey).(*noted); ok {
		return n
	}
	return &noted{}
}

// traceID reads the trace id of a W3C traceparent; "" if it is none.
func traceID(header string) string {
	parts := strings.Split(header, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return ""
	}
	for _, p := range parts[:4] {
		if strings.Trim(p, "0123456789abcdef") != "" {
			return ""
		}
	}
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return parts[1]
}

func trace(r *http.Request) string {
	id, _ := r.Context().Value(traceKey).(string)
	return id
}

// log is the log with what is known of the request.
func (a *API) log(r *http.Request) *slog.Logger { return a.Log.With(known(r)...) }

func known(r *http.Request) []any {
	n := notes(r)
	attrs := []any{"request", requestID(r)}
	for _, x := range []struct{ name, value string }{{"trace", trace(r)}, {"tenant", n.tenant}, {"by", n.by},
		{"session", chi.URLParam(r, "session")}, {"run", n.run}} {
		if x.value != "" {
			attrs = append(attrs, x.name, x.value)
		}
	}
	return attrs
}

// observe counts each answer and writes a line about it: never a body, a query
// or a key.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.inFlight.Add(1)
		defer a.inFlight.Add(-1)
		began, n := time.Now(), &noted{}
		ctx := context.WithValue(r.Context(), notesKey, n)
		if id := traceID(r.Header.Get("traceparent")); id != "" {
			ctx = context.WithValue(ctx, traceKey, id)
		}
		r = r.WithContext(ctx)
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() { a.answered(r, ww, time.Since(began)) }()
		next.ServeHTTP(ww, r)
	})
}

func (a *API) answered(r *http.Request, w middleware.WrapResponseWriter, took time.Duration) {
	out := Answered{Method: r.Method, Route: chi.RouteContext(r.Context()).RoutePattern(), Status: w.Status(), Bytes: w.BytesWritten(),
		Took: took, Streamed: strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")}
	if strings.HasSuffix(out.Route, "*") { // refused before the router was through
		_, out.Route, _ = strings.Cut(a.routeOf(r), " ")
	}
	if out.Status == 0 {
		out.Status = http.StatusOK
	}
	if a.Answered != nil {
		a.Answered(out)
	}
	if a.Log == nil {
		return
	}
	level := slog.LevelInfo
	switch out.Route {
	case "/health", "/healthz", "/readyz", "/metrics": // asked all the time
		level = slog.LevelDebug
	}
	attrs := append(known(r), "method", r.Method, "route", out.Route, "status", out.Status, "ms", took.Milliseconds(), "bytes", out.Bytes)
	a.Log.Log(context.WithoutCancel(r.Context()), level, "answered", attrs...)
}

// Open counts the requests in progress, and the feeds among them.
func (a *API) Open() (requests, readers int) { return int(a.inFlight.Load()), int(a.readers.Load()) }

// metrics answers scrapes; with a key on the server, those that carry it.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	if a.Metrics == nil {
		a.fail(w, r, notFound("this server counts nothing"))
		return
	}
	a.Metrics.ServeHTTP(w, r)
}
