package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"refold/domain/event"
	"refold/projections"
)

// Sources are what numbers are read from when somebody scrapes.
type Sources struct {
	Store     event.Store
	Engine    *projections.Engine
	Documents projections.Documents // where the list of runs is read
	Active    func() int            // runs that have a goroutine
	Parked    func() int            // runs that wait as data
	Readers   func() int            // open feeds
	Queue     func() int            // documents and the like that nobody works on yet
	Busy      func() int            // those that are worked on
}

// Watch registers what is read at each scrape.
func (s *Set) Watch(from Sources) { s.registry.MustRegister(&watch{set: s, from: from}) }

type watch struct {
	set  *Set
	from Sources
	mu   sync.Mutex // one scrape at a time asks the store
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("refold_"+name, help, labels, nil)
}

var (
	lagDesc = describe("projection_lag_seconds", "Age of the oldest event that a read model has not folded; 0 if it has all. "+
		"High and rising: the process can't keep up, or the store is slow; high and broken: see refold_projections_broken.", "projection")
	brokenDesc = describe("projections_broken", "Read models that have stopped. Not 0: /readyz and the log have the reason; repair it, then run: refold rebuild NAME.")
	runsDesc   = describe("runs_open", "Runs that have not ended, by status: posted, running, waiting (for a person). posted rises: no process moves runs. "+
		"waiting rises: answer GET /api/v1/agent/tool-approvals?status=pending.", "status")
	activeDesc  = describe("actors_active", "Runs that this process works on right now. High: runs wait for slow models or tools; see their seconds.")
	parkedDesc  = describe("runs_parked", "Runs that wait as data in this process, for a person or a time. They cost nothing; high: see refold_runs_open.")
	queueDesc   = describe("ingest_queue", "Documents, imports and deleted bases that wait in this process until it works on them. High and not falling: see refold_ingest_stage_seconds for what is slow.")
	busyDesc    = describe("ingest_active", "Those that this process works on right now, at most 4 at once. 4 for long: see refold_ingest_queue.")
	readersDesc = describe("sse_readers", "Open feeds. High: clients do not close their streams; each costs a goroutine and a connection.")
)

// Describe implements prometheus.Collector.
func (w *watch) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagDesc, brokenDesc, runsDesc, activeDesc, parkedDesc, readersDesc, queueDesc, busyDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watch) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(activeDesc, float64(w.from.Active()))
	gauge(parkedDesc, float64(w.from.Parked()))
	gauge(readersDesc, float64(w.from.Readers()))
	gauge(queueDesc, float64(w.from.Queue()))
	gauge(busyDesc, float64(w.from.Busy()))
	gauge(brokenDesc, float64(len(w.from.Engine.Broken())))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	for _, p := range w.from.Engine.List {
		age, err := w.lag(ctx, p)
		if err != nil {
			w.set.scrapeErrors.Inc()
			continue
		}
		gauge(lagDesc, age, p.Name)
	}
	for _, status := range []string{"posted", "running", "waiting"} {
		n, err := w.count(ctx, status)
		if err != nil {
			w.set.scrapeErrors.Inc()
			continue
		}
		gauge(runsDesc, float64(n), status)
	}
}

// lag is the age of the oldest event that a projection has not folded, in seconds.
func (w *watch) lag(ctx context.Context, p projections.Projection) (float64, error) {
	next, _, err := w.from.Store.Scan(ctx, w.from.Engine.Folded(p), p.Filter, 1)
	if err != nil || len(next) == 0 {
		return 0, err
	}
	return max(0, w.set.now().Sub(next[0].Time).Seconds()), nil
}

// count counts the runs of a status, of all tenants.
func (w *watch) count(ctx context.Context, status string) (int, error) {
	total := 0
	err := projections.EachTenant(ctx, w.from.Documents, func(tenant string) error {
		page, err := w.from.Documents.Find(ctx, projections.Query{Collection: projections.Runs.ID(), Tenant: tenant, Limit: 1, CountTotal: true,
			Where: []projections.Where{{Field: "status", Op: "=", Value: status}}})
		total += page.Total
		return err
	})
	return total, err
}
