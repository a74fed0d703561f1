package api

import (
	"cmp"
	"encoding/json"
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

// baseJSON is a knowledge base on the wire.
type baseJSON struct {
	ID              string             `json:"id"`
	Name            string             `json:"name"`
	Type            string             `json:"type"`
	Temporary       json.RawMessage    `json:"is_temporary"`
	Description     string             `json:"description"`
	TenantID        int64              `json:"tenant_id"`
	CreatorID       string             `json:"creator_id"`
	Chunking        knowledge.Chunking `json:"chunking_config"`
	Image           json.RawMessage    `json:"image_processing_config"`
	Embedding       string             `json:"embedding_model_id"`
	Summary         string             `json:"summary_model_id"`
	VLM             json.RawMessage    `json:"vlm_config"`
	ASR             json.RawMessage    `json:"asr_config"`
	StorageProvider json.RawMessage    `json:"storage_provider_config"`
	StorageBackend  string             `json:"storage_backend_id,omitempty"`
	Storage         json.RawMessage    `json:"storage_config"`
	VectorStore     string             `json:"vector_store_id,omitempty"`
	Extract         json.RawMessage    `json:"extract_config"`
	FAQ             *knowledge.FAQMode `json:"faq_config"`
	Questions       json.RawMessage    `json:"question_generation_config"`
	AutoTag         json.RawMessage    `json:"auto_tag_config"`
	Wiki            json.RawMessage    `json:"wiki_config"`
	Strategy        knowledge.Strategy `json:"indexing_strategy"`
	IsPinned        bool               `json:"is_pinned"`
	PinnedAt        *time.Time         `json:"pinned_at"`
	CreatedAt       time.Time          `json:"created_at"`
	UpdatedAt       time.Time          `json:"updated_at"`
	DeletedAt       *time.Time         `json:"deleted_at"`
	Documents       int                `json:"knowledge_count"`
	Chunks          int                `json:"chunk_count"`
	IsProcessing    bool               `json:"is_processing"`
	Processing      int                `json:"processing_count"`
	Shares          int                `json:"share_count"`
	Capabilities    map[string]bool    `json:"capabilities"`
}

// wireBase shows a base. It can be searched by vectors only if there is a model
// that makes them.
func (a *API) wireBase(r *http.Request, b projections.BaseEntry) baseJSON {
	s := b.Settings
	out := baseJSON{ID: b.ID, Name: b.Name, Type: b.Kind, Temporary: kept(s, "is_temporary"), Description: b.Description, TenantID: tenantNumber(r), CreatorID: b.By,
		Chunking: s.Chunking, Image: kept(s, "image_processing_config"), Embedding: s.Embedding, Summary: keptText(s, "summary_model_id"), VLM: kept(s, "vlm_config"),
		ASR: kept(s, "asr_config"), StorageProvider: kept(s, "storage_provider_config"), StorageBackend: keptText(s, "storage_backend_id"), Storage: kept(s, "storage_config"),
		VectorStore: keptText(s, "vector_store_id"), Extract: kept(s, "extract_config"), FAQ: s.FAQ, Questions: kept(s, "question_generation_config"),
		AutoTag: kept(s, "auto_tag_config"), Wiki: kept(s, "wiki_config"), Strategy: s.Strategy, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		Documents: b.Documents, Chunks: b.Chunks, IsProcessing: b.Processing > 0, Processing: b.Processing, Capabilities: b.Capabilities()}
	if out.Chunking.Separators == nil {
		out.Chunking.Separators = []string{}
	}
	vectors := a.Commands.Vectors
	out.Capabilities["vector"] = out.Capabilities["vector"] && vectors != nil && vectors(tenant(r), s.Embedding) != ""
	if at, pinned := b.Pins[caller(r).Principal]; pinned {
		out.IsPinned, out.PinnedAt = true, &at
	}
	return out
}

// loadBase gives a base as the list shows it, which has caught up with everything
// that was written before.
func (a *API) loadBase(r *http.Request, id string) (projections.BaseEntry, error) {
	if err := a.fresh(r, projections.Bases); err != nil {
		return projections.BaseEntry{}, err
	}
	b, err := one[projections.BaseEntry](r.Context(), a, projections.Bases, tenant(r), id)
	if err != nil || b == nil {
		return projections.BaseEntry{}, orElse(err, knowledge.ErrNoBase)
	}
	return *b, nil
}

func (a *API) answerBase(w http.ResponseWriter, r *http.Request, status int, id string, pos event.Position) (int, any, error) {
	positionHeader(w, pos)
	b, err := a.loadBase(r, id)
	if err != nil {
		return 0, nil, err
	}
	w.Header().Set("ETag", etag(b.Version))
	return status, ok(a.wireBase(r, b)), nil
}

func (a *API) createBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var raw map[string]json.RawMessage
	var b struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	c, err := a.baseBody(w, r, &raw, &b)
	if err == nil {
		err = boundedBase(b.Name, b.Description)
	}
	if err != nil {
		return 0, nil, err
	}
	id, pos, err := a.Commands.CreateBase(r.Context(), caller(r), commands.NewBase{Name: b.Name, Kind: b.Type, Description: b.Description, Settings: c.settings()})
	if err != nil {
		return 0, nil, err
	}
	return a.answerBase(w, r, http.StatusCreated, id, pos)
}

func boundedBase(name, description string) error {
	return bounded(bound{"name", name, knowledge.MaxName}, bound{"description", description, knowledge.MaxDescription})
}

// baseBody reads a body with settings of a base at its top.
func (a *API) baseBody(w http.ResponseWriter, r *http.Request, raw *map[string]json.RawMessage, into any) (baseConfig, error) {
	if err := decode(w, r, maxBody, raw); err != nil {
		return baseConfig{}, err
	}
	all, err := json.Marshal(*raw)
	if err == nil {
		err = parse(all, into)
	}
	if err != nil {
		return baseConfig{}, err
	}
	if *raw == nil {
		*raw = map[string]json.RawMessage{}
	}
	return configOf(*raw)
}

func (a *API) getBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	return a.answerBase(w, r, http.StatusOK, chi.URLParam(r, "base"), "")
}

// maxBases bounds how many bases a list shows.
const maxBases = 5000

// bases gives the bases of the tenant: the caller's pinned ones first, then the
// newest.
func (a *API) bases(r *http.Request) ([]projections.BaseEntry, error) {
	if err := a.fresh(r, projections.Bases); err != nil {
		return nil, err
	}
	var out []projections.BaseEntry
	q := projections.Query{Collection: projections.Bases.ID(), Tenant: tenant(r), OrderBy: []projections.Order{{Field: "created_at", Desc: true}}, Limit: maxPage}
	for {
		p, err := a.Documents.Find(r.Context(), q)
		if err != nil {
			return nil, err
		}
		rows, err := documents[projections.BaseEntry](p.Documents)
		if err != nil {
			return nil, err
		}
		if out = append(out, rows...); p.Next == "" || len(out) >= maxBases {
			break
		}
		q.Cursor = p.Next
	}
	me := caller(r).Principal
	slices.SortStableFunc(out, func(x, y projections.BaseEntry) int {
		return cmp.Compare(y.Pins[me].UnixMicro(), x.Pins[me].UnixMicro())
	})
	return out, nil
}

func (a *API) listBases(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	creator := r.URL.Query().Get("creator")
	if !slices.Contains([]string{"", "mine", "others"}, creator) {
		return 0, nil, invalid(`creator must be "mine" or "others"`)
	}
	rows, err := a.bases(r)
	if err != nil {
		return 0, nil, err
	}
	out := []baseJSON{}
	for _, b := range rows {
		if creator == "" || (b.By == caller(r).Principal) == (creator == "mine") {
			out = append(out, a.wireBase(r, b))
		}
	}
	return http.StatusOK, ok(out), nil
}

func (a *API) updateBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Name        string                     `json:"name"`
		Description string                     `json:"description"`
		Config      map[string]json.RawMessage `json:"config"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if err := boundedBase(b.Name, b.Description); err != nil {
		return 0, nil, err
	}
	ch := commands.BaseChange{Name: &b.Name, Description: &b.Description}
	if b.Config != nil {
		c, err := configOf(b.Config)
		if err != nil {
			return 0, nil, err
		}
		c.change(&ch)
	}
	id := chi.URLParam(r, "base")
	pos, err := a.Commands.ChangeBase(r.Context(), caller(r), id, ch)
	if err != nil {
		return 0, nil, err
	}
	return a.answerBase(w, r, http.StatusOK, id, pos)
}

func (a *API) pinBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	id := chi.URLParam(r, "base")
	_, pos, err := a.Commands.PinBase(r.Context(), caller(r), id)
	if err != nil {
		return 0, nil, err
	}
	return a.answerBase(w, r, http.StatusOK, id, pos)
}

func (a *API) deleteBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	pos, err := a.Commands.DeleteBase(r.Context(), caller(r), chi.URLParam(r, "base"))
	if err != nil {
		return 0, nil, err
	}
	positionHeader(w, pos)
	return http.StatusOK, done("Knowledge base deleted"), nil
}

// duplicateBase makes an empty base with the same settings.
func (a *API) duplicateBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	source := chi.URLParam(r, "base")
	b, err := a.Commands.Base(r.Context(), tenant(r), source)
	if err != nil {
		return 0, nil, err
	}
	id, pos, err := a.copySettings(r, b)
	if err != nil {
		return 0, nil, err
	}
	positionHeader(w, pos)
	made, err := a.loadBase(r, id)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, ok(body{"source_id": source, "target_id": id, "message": "Settings copied; the documents stay where they are", "knowledge_base": a.wireBase(r, made)}), nil
}

// moveTargets lists the bases that treat documents as this one does.
func (a *API) moveTargets(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	rows, err := a.bases(r)
	if err != nil {
		return 0, nil, err
	}
	i := slices.IndexFunc(rows, func(b projections.BaseEntry) bool { return b.ID == chi.URLParam(r, "base") })
	if i < 0 {
		return 0, nil, knowledge.ErrNoBase
	}
	out := []baseJSON{}
	for _, b := range rows {
		if b.ID != rows[i].ID && b.Kind == rows[i].Kind && strings.EqualFold(b.Settings.Embedding, rows[i].Settings.Embedding) {
			out = append(out, a.wireBase(r, b))
		}
	}
	return http.StatusOK, ok(out), nil
}
