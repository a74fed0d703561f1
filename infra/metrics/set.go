// Package metrics counts what a process does, for Prometheus. Decorators around
// the ports do the counting, so that nobody else knows of it. Names of models
// and tools, which people choose, are bounded. Start reading at Set.
package metrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxNames bounds the values of a label that people choose. What comes later is
// counted as Other.
const maxNames = 100

// Other is the label of what has none of its own.
const Other = "other"

// Set holds the collectors of one process. Safe for concurrent use.
type Set struct {
	registry *prometheus.Registry
	now      func() time.Time

	appends, conflicts     *prometheus.CounterVec
	appendEvents           *prometheus.HistogramVec
	appendSeconds          *prometheus.HistogramVec
	modelCalls, tokens     *prometheus.CounterVec
	modelSeconds, modelTTF *prometheus.HistogramVec
	toolCalls              *prometheus.CounterVec
	toolSeconds            *prometheus.HistogramVec
	requests               *prometheus.CounterVec
	requestSeconds         *prometheus.HistogramVec
	documents, stages      *prometheus.CounterVec
	stageSeconds           *prometheus.HistogramVec
	scrapeErrors           prometheus.Counter

	models, tools, codes names
}

var (
	fast = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	slow = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// New makes a set. now tells the time, nil = time.Now.
func New(now func() time.Time) *Set {
	if now == nil {
		now = time.Now
	}
	s := &Set{registry: prometheus.NewRegistry(), now: now}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refold_" + name, Help: help}, labels)
		s.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "refold_" + name, Help: help, Buckets: buckets}, labels)
		s.registry.MustRegister(v)
		return v
	}
	s.appends = counter("appends_total", "Appends to the event store by category and outcome (ok, conflict, invalid, unavailable, error). "+
		"unavailable rises: look at the disk, the database and its connections; nothing is lost, callers try again.", "category", "outcome")
	s.conflicts = counter("append_conflicts_total", "Appends that somebody else was faster than. They are decided again. "+
		"More than some in a hundred: several processes work on the same runs, or clients post to one session at once.", "category")
	s.appendEvents = histogram("append_events", "Events of one append. Mostly 1 for deltas while the store is slow: raise nothing, look at refold_append_seconds.",
		[]float64{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}, "category")
	s.appendSeconds = histogram("append_seconds", "Time of an append until it is durable. High: the disk's fsync is slow, or the database is far away or busy; "+
		"look there, and move the record to faster storage.", fast, "category")
	s.modelCalls = counter("model_calls_total", "Calls of models by outcome (ok, canceled, or the error's code). rate_limited: add keys or endpoints, or set tokens_per_minute. "+
		"unauthorized, not_found: correct the configuration. timeout, overloaded, connection: look at the provider.", "model", "outcome")
	s.modelSeconds = histogram("model_call_seconds", "Time of a whole model call that succeeded. High: the provider is slow, or answers and prompts are long; see refold_model_tokens_total.", slow, "model")
	s.modelTTF = histogram("model_first_delta_seconds", "Time until the first piece of a reply. High: the provider queues, or prompts are long.", slow, "model")
	s.tokens = counter("model_tokens_total", "Tokens as providers report them, by kind: prompt, completion, cached (part of prompt). "+
		"Rising faster than runs: look at GET /api/v1/usage?by=session for who uses them.", "model", "kind")
	s.toolCalls = counter("tool_calls_total", "Calls of tools by outcome (success, failed, abandoned). failed: read the tool log, GET /api/v1/tool-log?outcome=failed. "+
		"abandoned: the tool ignores its deadline; repair it.", "tool", "outcome")
	s.toolSeconds = histogram("tool_call_seconds", "Time of a tool call. High: the tool, or what it asks, is slow; the run waits for it.", slow, "tool")
	s.requests = counter("http_requests_total", "Answered requests by route and status. 5xx: the log has each under its request id. 429: a key asks more than --rate allows. 401, 403: somebody has a wrong key.",
		"method", "route", "status")
	s.requestSeconds = histogram("http_request_seconds", "Time of an answer that is no stream. High with low refold_append_seconds: views are behind (refold_projection_lag_seconds), or the machine is busy.", fast, "method", "route")
	s.documents = counter("ingest_documents_total", "Documents of knowledge bases that nothing more is done for, by outcome (indexed, failed, removed). "+
		"failed rises: GET /api/v1/knowledge-bases/{id}/knowledge?parse_status=failed says which and why.", "outcome")
	s.stages = counter("ingest_stages_total", "Attempts at stages of ingestion by outcome (done, cut_off, or the code of the failure). "+
		"rate_limited, timeout, connection of embed: look at the embedding model. fetch: look at the address. cut_off: processes end, or people change documents meanwhile.", "stage", "outcome")
	s.stageSeconds = histogram("ingest_stage_seconds", "Time of a stage that succeeded. High at parse or chunk: large files; at embed: the embedding model is slow; at index: the store is slow, see refold_append_seconds.", slow, "stage")
	s.scrapeErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "refold_scrape_errors_total",
		Help: "Numbers that could not be read for a scrape and were left out. Rising: the store or the read models are away; see /readyz."})
	s.registry.MustRegister(s.scrapeErrors, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Handler answers scrapes.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Registry is where the collectors are registered.
func (s *Set) Registry() prometheus.Gatherer { return s.registry }

// Request counts an answered request. route is its pattern, "" if there is none.
func (s *Set) Request(method, route string, status int, took time.Duration, streamed bool) {
	if route == "" { // anybody can invent methods
		method, route = Other, Other
	}
	s.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	if !streamed {
		s.requestSeconds.WithLabelValues(method, route).Observe(took.Seconds())
	}
}

// names bounds the values of a label.
type names struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (n *names) label(name string) string {
	if name == "" {
		return Other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[name]; ok {
		return name
	}
	if len(n.seen) >= maxNames || len(name) > 200 {
		return Other
	}
	if n.seen == nil {
		n.seen = map[string]struct{}{}
	}
	n.seen[name] = struct{}{}
	return name
}
