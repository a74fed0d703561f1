// Package app is the composition root as an object: it chooses the store, the
// models and the tools, and connects them. It may import everything. Start
// reading at Open.
package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"refold/api"
	"refold/commands"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/retrieval"
	"refold/handlers/tools"
	"refold/infra/analysis"
	"refold/infra/jsonschema"
	"refold/infra/metrics"
	"refold/infra/parse"
	"refold/infra/parse/charset"
	"refold/infra/tiktoken"
	"refold/infra/web"
	"refold/infra/websearch"
	"refold/projections"
)

// App is a Refold process without its command line: open it, serve it, close it.
type App struct {
	Config   Config
	DB       Database
	Store    event.Store
	store    *watched // the same
	Commands *commands.Commands
	Engine   *projections.Engine
	Runner   *handlers.Runner
	Titler   *handlers.Titler
	Ingest   *handlers.Ingest
	API      *api.API
	LocalKey string
	Metrics  *metrics.Set
	// Yields, if set before Serve, is asked to give the record up to a server that
	// wants to start; true if it will.
	Yields func() bool

	shelves *shelves
	parser  *parse.Parser
	web     *web.Client

	retriever *retrieval.Retriever
	counts    <-chan struct{} // closed when tokens are counted exactly

	analyst *analysis.Engine // nil = there is none

	searchers websearch.First // of the web, each asked if those before it fail

	stop      context.CancelFunc
	work      sync.WaitGroup
	announced bool        // not safe for concurrent use
	started   atomic.Bool // the runner has taken over the open runs
	problem   atomic.Pointer[string]
}

// Open opens the record and begins to work on it. The caller must Close.
func Open(ctx context.Context, c Config) (*App, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", c.Data, err)
	}
	count := metrics.New(nil)
	m, err := newModels(c, count)
	if err != nil {
		return nil, configError(err)
	}
	db, err := OpenDatabase(ctx, c, false)
	if err != nil {
		return nil, err
	}
	a := &App{Config: c, DB: db, Metrics: count, store: &watched{Store: count.Store(db.Events())}, LocalKey: randomKey()}
	a.Store = a.store
	if err := a.assemble(m); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := a.begin(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return a, nil
}

// assemble connects the parts.
func (a *App) assemble(m *models) error {
	c := a.Config
	registry := &tool.Registry{}
	a.Engine = &projections.Engine{Store: a.Store, Documents: a.DB.Documents(), Log: c.Log, List: projections.All()}
	a.Runner = &handlers.Runner{Store: a.Store, Models: m, Blobs: a.DB.Blobs(), Clock: c.Clock, Log: c.Log,
		Self: instanceID(), Sole: c.embedded(),
		Tools: a.Metrics.Tools(tools.Box{Invoker: &tools.Invoker{Registry: registry, Validator: jsonschema.New(), Log: c.Log}})}
	cat := &catalog{registry: registry, models: m, fallback: c.Fallback, temperature: c.Temperature, runTimeout: c.RunTimeout, modelTimeout: c.ModelTime, approvalTimeout: c.ApprovalTimeout,
		contextTokens: c.ContextTokens, windows: c.windows()}
	a.Commands = commands.New(a.Store, cat, c.Clock.Now, newID)
	a.Commands.Images, a.Commands.Models = m.takesImages, m.known
	a.Runner.Commands, a.Runner.Vision, a.Runner.Describer, a.Runner.Plain = a.Commands, m.sees, m.vlm, m.plain
	counter := &tiktoken.Counter{Log: c.Log}
	a.counts = counter.Load() // in the background: only who cuts documents waits for it
	a.Runner.Tokens = counter
	if err := a.learn(counter); err != nil {
		return err
	}
	cat.scopes = &scopes{a.shelves, a.fresh}
	builtin := []tool.Tool{tools.Thinking{}, tools.TodoWrite{}, &tools.ReadToolResult{Results: a.Runner},
		tools.ListFiles{}, tools.GrepFiles{Decode: charset.Decode}, tools.ReadFile{Decode: charset.Decode}}
	for _, t := range slices.Concat(builtin, a.knowledgeTools(m), c.Tools) {
		if err := registry.Register(t); err != nil {
			return err
		}
	}
	a.Titler = &handlers.Titler{Commands: a.Commands, Store: a.Store, Models: m, Clock: c.Clock, Log: c.Log, Self: a.Runner.Self,
		Sole: a.Runner.Sole, Plain: m.plain}
	var agents []agent.Agent
	for _, id := range agent.Builtins {
		g, _, err := cat.Agent(context.Background(), "", id)
		if err != nil {
			return err
		}
		agents = append(agents, g)
	}
	roots, err := c.rootsByTenant()
	if err != nil {
		return err
	}
	limits, err := c.limits()
	if err != nil {
		return err
	}
	a.API = &api.API{Blobs: a.DB.Blobs(), Contents: a.DB.Contents(), Commands: a.Commands, Store: a.Store, Documents: a.Engine.Reading(), Engine: a.Engine,
		Tail: &api.Tail{Store: a.Store, Log: c.Log}, Log: c.Log, Version: c.Version, Key: c.APIKey, LocalKey: a.LocalKey,
		Roots: roots, Self: a.Runner.Self, Sole: a.Runner.Sole, Limits: limits, Ready: a.ready, Waits: a.Runner.WaitsFor, Notes: a.notes, Written: a.store.newest, Titles: a.Titler.Generate, Agents: agents,
		Metrics: a.Metrics.Handler(), Answered: func(x api.Answered) {
			a.Metrics.Request(x.Method, x.Route, x.Status, x.Took, x.Streamed)
		}}
	a.teach()
	a.Metrics.Watch(metrics.Sources{Store: a.Store, Engine: a.Engine, Documents: a.Engine.Reading(), Active: a.Runner.Active, Parked: a.Runner.Parked,
		Queue: a.Ingest.Waiting, Busy: a.Ingest.Active,
		Readers: func() int { _, readers := a.API.Open(); return readers }})
	return nil
}

// begin starts what works in the background.
func (a *App) begin(ctx context.Context) error {
	head, err := a.Store.Head(ctx)
	if err != nil {
		return err
	}
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.work.Go(func() { a.Engine.Run(bg) })
	a.work.Go(func() { a.API.Tail.Run(bg, head) })
	if a.Config.Idle {
		a.started.Store(true)
		return nil
	}
	a.work.Go(func() { a.move(bg, head) })
	if a.Config.Sample {
		a.work.Go(func() {
			if err := a.sample(bg, head == ""); err != nil && bg.Err() == nil {
				a.Config.Log.Warn("there is no sample to ask, or only a part of it", "error", err)
			}
		})
	}
	if !a.Config.Own { // whoever serves the others makes the titles and tidies up
		a.work.Go(func() { a.collector().Run(bg) })
		a.work.Go(func() { a.Titler.Run(bg, head, a.untitled(bg, head)) })
	}
	return nil
}

func (a *App) ready(ctx context.Context) map[string]string {
	out := map[string]string{}
	if !a.started.Load() {
		out["runner"] = "the read models are catching up with the log"
	}
	if p := a.problem.Load(); p != nil {
		out["runner"] = *p
	}
	if text := a.store.trouble(ctx); text != "" {
		out["store"] = text
	}
	return out
}

// notes are what a person should do although the server works: runs wait for
// models that it does not have.
func (a *App) notes() []string {
	var out []string
	for why, n := range a.Runner.Missing() {
		out = append(out, fmt.Sprintf("runs that wait: %d, since %s; add the model to the configuration and start the server again, or stop them", n, why))
	}
	slices.Sort(out)
	return out
}

// Announce writes the file by which command lines of the same user find the
// server. Serve does it too; who tells people the address does it before.
func (a *App) Announce(l net.Listener) error {
	err := writeEndpoint(a.Config.Data, Endpoint{Addr: l.Addr().String(), PID: os.Getpid(), LocalKey: a.LocalKey, Version: a.Config.Version, Command: a.Config.Command})
	a.announced = err == nil
	return err
}

// Serve answers HTTP requests on a listener until ctx ends. announce, if set,
// announces the server, and takes that back at the end.
func (a *App) Serve(ctx context.Context, l net.Listener, announce bool) error {
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	readTimeout := a.Config.ReadTimeout
	if readTimeout == 0 {
		readTimeout = 60 * time.Second
	}
	handler := a.API.Handler()
	if a.Config.Command {
		handler = a.local(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout,
		IdleTimeout: 120 * time.Second, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return base }}
	if announce {
		if !a.announced {
			if err := a.Announce(l); err != nil {
				return err
			}
		}
		defer a.unannounce()
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	began := time.Now()
	requests, readers := a.API.Open()
	log := a.Config.Log
	log.Info("stopping: no new requests are taken; feeds end, and their readers come back with their place", "requests", requests, "readers", readers,
		"active_runs", a.Runner.Active(), "parked_runs", a.Runner.Parked())
	end()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		// A connection that was never used counts as busy there, for five seconds.
		if requests, readers = a.API.Open(); requests+readers == 0 {
			return server.Close()
		}
		log.Warn("stopping: requests are cut off", "requests", requests, "readers", readers, "ms", time.Since(began).Milliseconds())
		return errors.Join(fmt.Errorf("shut down: %w", err), server.Close())
	}
	log.Info("stopping: every request is answered", "ms", time.Since(began).Milliseconds())
	return nil
}

// Close ends the work, hands back what was claimed, and closes the record.
func (a *App) Close() error {
	began, active := time.Now(), a.Runner.Active()
	a.stop()
	a.work.Wait()
	a.parser.Close()
	if a.analyst != nil {
		a.analyst.Close()
	}
	err := a.DB.Close()
	a.Config.Log.Info("stopped: work is handed back or reported, and the record is closed", "active_runs", active, "ms", time.Since(began).Milliseconds())
	return err
}

func instanceID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), randomKey()[:8])
}

func randomKey() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails (documented)
	return hex.EncodeToString(b)
}

// newID makes ids that grow with the time: what is stored together then lies
// together in the indexes of the store, and a commit writes few pages of them.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
