package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// DefaultTenant is the tenant of the operator's requests that name no other.
const DefaultTenant = domain.DefaultTenant

// API answers HTTP requests. Its fields are set before Handler.
type API struct {
	Commands  *commands.Commands
	Store     event.Store
	Documents projections.Documents
	Blobs     Blobs
	Contents  Contents // the same
	Engine    *projections.Engine
	Tail      *Tail
	Log       *slog.Logger
	Version   string
	// Key, if set, must be in every request (X-API-Key, or Bearer). Without one
	// the server is bound to this machine only, and requests must name it so.
	Key string
	// LocalKey proves that the caller is a process of the same user on this
	// machine (it could read the key file): it may name any folder as workspace.
	LocalKey string
	// Roots are the folders, by tenant, whose subfolders its requests may name as
	// workspace.
	Roots map[string][]string
	// Self is the id of this process, and Sole tells that no other works on the
	// log: how it is known who works on a request with an Idempotency-Key.
	Self string
	Sole bool
	// Limits slow down who asks too much.
	Limits Limits
	// Written is the newest position that this process has written; nil = none.
	Written func() event.Position
	// Ready gives what is not ready yet, by name; empty when all is well.
	Ready func(ctx context.Context) map[string]string
	// Notes are what a person should know although the server is ready; nil =
	// nothing.
	Notes func() []string
	// Waits says what a run waits for that is not on the record, "" if nothing.
	Waits func(tenant, run string) string
	// Heartbeat is the pause between comments on a quiet stream; 0 = 15 s.
	Heartbeat time.Duration
	// WriteTimeout cuts off a reader who takes nothing for so long; 0 = 30 s.
	WriteTimeout time.Duration
	// Titles makes a title because somebody asks for one, records it, and gives it
	// with the position of the fact.
	Titles func(ctx context.Context, by commands.Caller, session, question, answer string) (string, event.Position, error)
	// Index is where chunks are read from, and Search finds them; its notes are what
	// people should know of a search, as that it went by words alone.
	Index  knowledge.Index
	Search func(ctx context.Context, s Search) (found []Passage, notes []string, err error)
	// Types are the extensions of files that can be read, without the dot, and
	// MaxUpload is the largest of them in bytes; 0 = DefaultUpload.
	Types     []string
	MaxUpload int64
	// Reachable refuses an address that must not be fetched; nil = that is found out
	// when it is.
	Reachable func(address string) error
	// Agents lists the agents to show.
	Agents []agent.Agent
	// Metrics answers scrapes, and Answered is told of each answer; nil = nothing is
	// counted.
	Metrics  http.Handler
	Answered func(Answered)

	inFlight, readers atomic.Int64

	feedsMu sync.Mutex
	feeds   map[topic]*sharedFeed // of the runs that somebody reads

	routes  chi.Routes
	large   chan struct{} // a token for each large body in memory
	tenants sync.Map      // names of tenants that exist
	uses    uses
	limiter limiter
	flights flights
}

// Handler is the whole HTTP surface.
func (a *API) Handler() http.Handler {
	r := chi.NewRouter()
	a.routes, a.large = r, make(chan struct{}, largeAtOnce)
	r.Use(a.requestID, a.observe, a.recoverPanic, a.guard)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, notFound("there is no such route; the API is under /api/v1, and described at /docs"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		notAllowed(w, r, a.allowed(r))
	})
	for _, path := range []string{"/health", "/healthz"} {
		r.Get(path, a.health)
		r.Head(path, a.health)
	}
	r.Get("/readyz", a.ready)
	r.Get("/openapi.json", a.openAPI)
	r.Get("/docs", a.docs)
	r.Get("/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	r.With(a.authenticate).Get("/metrics", a.metrics)
	r.Route("/api/v1", func(r chi.Router) {
		r.Use(a.authenticate, a.nameable, a.limit, a.idempotent)
		r.Post("/sessions", a.createSession)
		r.Get("/sessions", a.listSessions)
		r.Get("/sessions/continue-stream/{session}", a.continueStream)
		r.Delete("/sessions/batch", a.deleteSessions)
		r.Delete("/sessions/{session}/messages", a.clearMessages)
		r.Post("/sessions/{session}/pin", a.pinSession)
		r.Delete("/sessions/{session}/pin", a.unpinSession)
		r.Post("/sessions/{session}/generate_title", a.generateTitle)
		r.Delete("/messages/{session}/{message}", a.deleteMessage)
		r.Post("/messages/search", a.searchMessages)
		r.Get("/messages/chat-history-stats", a.historyStats)
		r.Get("/sessions/{session}", a.getSession)
		r.Put("/sessions/{session}", a.updateSession)
		r.Delete("/sessions/{session}", a.deleteSession)
		r.Post("/sessions/{session}/stop", a.stopRun)
		r.Get("/sessions/{session}/events", a.sessionEvents)
		r.Get("/sessions/{session}/queue", a.listQueue)
		r.Put("/sessions/{session}/queue/{message}", a.editQueued)
		r.Delete("/sessions/{session}/queue/{message}", a.withdrawQueued)
		r.Post("/sessions/{session}/attachments", a.addAttachment)
		r.Get("/sessions/{session}/attachments", a.listAttachments)
		r.Get("/sessions/{session}/attachments/{attachment}", a.getAttachment)
		r.Get("/sessions/{session}/attachments/{attachment}/preview", a.previewAttachment)
		r.Delete("/sessions/{session}/attachments/{attachment}", a.deleteAttachment)
		r.Get("/sessions/{session}/messages/{message}/files", a.messageFile)
		r.Post("/agent-chat/{session}", a.agentChat)
		r.Post("/knowledge-chat/{session}", a.knowledgeChat)
		r.Get("/messages/{session}/load", a.loadMessages)
		r.Get("/agent/tool-approvals", a.listApprovals)
		r.Post("/agent/tool-approvals/{approval}", a.resolveApproval)
		r.Get("/usage", a.usage)
		r.Get("/tool-log", a.listTools)
		r.Get("/runs", a.listRuns)
		r.Get("/runs/{run}", a.getRun)
		r.Get("/runs/{run}/memory", a.runMemory)
		r.Get("/views", a.listViews)
		r.Post("/views/{view}/rebuild", a.rebuildView)
		r.Get("/agents", a.listAgents)
		r.Get("/agents/{agent}", a.getAgent)
		a.knowledgeRoutes(r)
		r.Get("/tenants", a.currentTenant)
		r.Post("/tenants", a.createTenant)
		r.Get("/tenants/all", a.listTenants)
		r.Get("/tenants/{tenant}", a.getTenant)
		r.Get("/tenants/{tenant}/api-keys", a.listKeys)
		r.Post("/tenants/{tenant}/api-keys", a.createKey)
		r.Put("/tenants/{tenant}/api-keys/{key}", a.updateKey)
		r.Delete("/tenants/{tenant}/api-keys/{key}", a.revokeKey)
	})
	return r
}
