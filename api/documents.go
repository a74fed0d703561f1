package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// documentJSON is a document on the wire. The members after knowledge_base_name
// are ours.
type documentJSON struct {
	ID           string           `json:"id"`
	TenantID     int64            `json:"tenant_id"`
	Base         string           `json:"knowledge_base_id"`
	Tags         []tagJSON        `json:"tags"`
	Type         knowledge.Origin `json:"type"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	Source       string           `json:"source"`
	Channel      string           `json:"channel"`
	Status       string           `json:"parse_status"`
	Subtasks     int              `json:"pending_subtasks_count"`
	Summary      string           `json:"summary_status"`
	Enabled      string           `json:"enable_status"`
	Embedding    string           `json:"embedding_model_id"`
	FileName     string           `json:"file_name"`
	Folder       string           `json:"folder_path"`
	FileType     string           `json:"file_type"`
	FileSize     int64            `json:"file_size"`
	StorageSize  int64            `json:"storage_size"`
	FileHash     string           `json:"file_hash"`
	FilePath     string           `json:"file_path"`
	Metadata     json.RawMessage  `json:"metadata"`
	Custom       json.RawMessage  `json:"custom_metadata"`
	LastImport   *struct{}        `json:"last_faq_import_result"`
	CreatedAt    time.Time        `json:"created_at"`
	UpdatedAt    time.Time        `json:"updated_at"`
	ProcessedAt  *time.Time       `json:"processed_at"`
	ErrorMessage string           `json:"error_message"`
	DeletedAt    *time.Time       `json:"deleted_at"`
	BaseName     string           `json:"knowledge_base_name"`

	Progress  int        `json:"progress"` // percent
	Stage     string     `json:"stage,omitempty"`
	ErrorCode string     `json:"error_code,omitempty"`
	RetryAt   *time.Time `json:"retry_at,omitempty"`
	Chunks    int        `json:"chunk_count"`
	Notes     []string   `json:"notes,omitempty"` // of whoever has read the file
}

func wireDocument(r *http.Request, d projections.DocumentEntry, b projections.BaseEntry) documentJSON {
	out := documentJSON{ID: d.ID, TenantID: tenantNumber(r), Base: d.Base, Tags: []tagJSON{}, Type: d.Origin, Title: d.Title, Description: d.Description,
		Source: d.URL, Channel: d.Channel, Status: d.Status(), Summary: "none", Enabled: "enabled", Embedding: b.Settings.Embedding, FileName: d.FileName,
		Folder: d.Folder, FileType: d.FileType, FileSize: d.Content.Size, StorageSize: d.Stored, FileHash: strings.TrimPrefix(d.Content.Digest, "sha256:"),
		Metadata: d.Metadata, Custom: d.Custom, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, ErrorMessage: d.Error, BaseName: b.Name,
		Progress: d.Progress(d.Origin), ErrorCode: d.Code, Chunks: d.Chunks, Notes: d.Notes}
	if d.Disabled {
		out.Enabled = "disabled"
	}
	switch out.Status {
	case knowledge.StatusProcessing, knowledge.StatusFinalizing:
		out.Stage = d.Stage
	case knowledge.StatusCompleted:
		out.ProcessedAt = &d.DoneAt
	}
	if !d.RetryAt.IsZero() {
		out.RetryAt = &d.RetryAt
	}
	for _, t := range b.Tags {
		if slices.Contains(d.Tags, t.ID) {
			out.Tags = append(out.Tags, wireTag(r, b.ID, t))
		}
	}
	return out
}

// loadDocument gives a document of a live base as the lists show it.
func (a *API) loadDocument(r *http.Request, id string) (projections.DocumentEntry, projections.BaseEntry, error) {
	if err := a.fresh(r, projections.Library); err != nil {
		return projections.DocumentEntry{}, projections.BaseEntry{}, err
	}
	d, err := one[projections.DocumentEntry](r.Context(), a, projections.Library, tenant(r), id)
	if err != nil || d == nil {
		return projections.DocumentEntry{}, projections.BaseEntry{}, orElse(err, knowledge.ErrNoDocument)
	}
	b, err := a.loadBase(r, d.Base)
	if errors.Is(err, knowledge.ErrNoBase) {
		err = knowledge.ErrNoDocument
	}
	return *d, b, err
}

// showDocument gives a document on the wire.
func (a *API) showDocument(w http.ResponseWriter, r *http.Request, id string, pos event.Position) (documentJSON, error) {
	positionHeader(w, pos)
	d, b, err := a.loadDocument(r, id)
	if err != nil {
		return documentJSON{}, err
	}
	w.Header().Set("ETag", etag(d.Version))
	return wireDocument(r, d, b), nil
}

func (a *API) answerDocument(w http.ResponseWriter, r *http.Request, status int, id string, pos event.Position, message string) (int, any, error) {
	d, err := a.showDocument(w, r, id, pos)
	if err != nil {
		return 0, nil, err
	}
	out := ok(d)
	if message != "" {
		out["message"] = message
	}
	return status, out, nil
}

// document opens a document of a live base.
func (a *API) document(r *http.Request, id string) (*commands.Document, error) {
	if id == "" || !isID(id) {
		return nil, knowledge.ErrNoDocument
	}
	d, err := a.Commands.Document(r.Context(), tenant(r), id)
	if err == nil {
		if _, gone := a.Commands.Base(r.Context(), tenant(r), d.State.Base()); gone != nil {
			if err = gone; errors.Is(gone, knowledge.ErrNoBase) {
				err = knowledge.ErrNoDocument
			}
		}
	}
	return d, err
}

func (a *API) getDocument(w http.ResponseWriter, r *http.Request) (int, any, error) {
	return a.answerDocument(w, r, http.StatusOK, chi.URLParam(r, "document"), "", "")
}

// maxBatch bounds how many documents one request names.
const maxBatch = 200

// batchDocuments gives documents by id; those that are not there are left out.
func (a *API) batchDocuments(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	var ids []string
	for _, list := range r.URL.Query()["ids"] {
		ids = append(ids, splitList(list)...)
	}
	ids, err := batchIDs("ids", ids)
	if err == nil {
		err = a.fresh(r, projections.Library)
	}
	if err != nil {
		return 0, nil, err
	}
	keys := make([]projections.Key, len(ids))
	for i, id := range ids {
		keys[i] = projections.Key{Collection: projections.Library.ID(), Tenant: tenant(r), ID: id}
	}
	docs, err := a.Documents.Get(r.Context(), keys...)
	if err != nil {
		return 0, nil, err
	}
	rows, err := documents[projections.DocumentEntry](docs)
	if err != nil {
		return 0, nil, err
	}
	slices.SortFunc(rows, func(x, y projections.DocumentEntry) int { return slices.Index(ids, x.ID) - slices.Index(ids, y.ID) })
	if base := r.URL.Query().Get("kb_id"); base != "" {
		rows = slices.DeleteFunc(rows, func(d projections.DocumentEntry) bool { return d.Base != base })
	}
	out, err := a.showDocuments(r, rows)
	return http.StatusOK, ok(out), err
}

// batchIDs checks a list of ids, and leaves out what stands twice.
func batchIDs(name string, ids []string) ([]string, error) {
	switch {
	case len(ids) == 0:
		return nil, invalid(name + " is required: the ids of documents")
	case len(ids) > maxBatch:
		return nil, invalid(name + " names at most " + itoa(maxBatch) + " documents")
	}
	var out []string
	for _, id := range ids {
		if id == "" || !isID(id) || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, invalid(name + " holds something that is no id: ids have 1 to " + itoa(event.MaxIDLen) + " printable ASCII characters without blanks")
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// showDocuments gives rows on the wire; those of bases that are deleted are left
// out.
func (a *API) showDocuments(r *http.Request, rows []projections.DocumentEntry) ([]documentJSON, error) {
	out := []documentJSON{}
	if len(rows) == 0 {
		return out, nil
	}
	if err := a.fresh(r, projections.Bases); err != nil {
		return nil, err
	}
	bases := map[string]*projections.BaseEntry{}
	for _, d := range rows {
		b, known := bases[d.Base]
		if !known {
			var err error
			if b, err = one[projections.BaseEntry](r.Context(), a, projections.Bases, tenant(r), d.Base); err != nil {
				return nil, err
			}
			bases[d.Base] = b
		}
		if b != nil {
			out = append(out, wireDocument(r, d, *b))
		}
	}
	return out, nil
}
