package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/knowledge"
)

// chunkJSON is a chunk on the wire.
type chunkJSON struct {
	ID        string         `json:"id"`
	Number    int64          `json:"seq_id"`
	TenantID  int64          `json:"tenant_id"`
	Document  string         `json:"knowledge_id"`
	Base      string         `json:"knowledge_base_id"`
	Tag       string         `json:"tag_id"`
	Content   string         `json:"content"`
	Edition   int            `json:"content_revision"`
	Indexed   string         `json:"index_status"`
	Editor    string         `json:"last_editor_id"`
	Index     int            `json:"chunk_index"`
	IsEnabled bool           `json:"is_enabled"`
	Flags     int            `json:"flags"`
	Status    int            `json:"status"`
	Start     int            `json:"start_at"`
	End       int            `json:"end_at"`
	Previous  string         `json:"pre_chunk_id"`
	Next      string         `json:"next_chunk_id"`
	Kind      knowledge.Kind `json:"chunk_type"`
	Parent    string         `json:"parent_chunk_id"`
	Relations *struct{}      `json:"relation_chunks"`
	Indirect  *struct{}      `json:"indirect_relation_chunks"`
	Metadata  body           `json:"metadata"`
	Hash      string         `json:"content_hash"`
	Image     string         `json:"image_info"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	DeletedAt *time.Time     `json:"deleted_at"`

	Context string `json:"context_header,omitempty"` // ours: the headings above it
	Tokens  int    `json:"token_count,omitempty"`    // ours
}

// chunkWaits is the state of an edited chunk that searches still find as it was.
const chunkWaits = "pending"

// wireChunk shows a chunk as the record has it: the index may learn of an edit a
// little later.
func wireChunk(r *http.Request, s knowledge.State, c knowledge.Chunk) chunkJSON {
	state, editor, changed := "ready", "", s.DoneAt
	if e, edited := editOf(s, c); edited {
		if e.Edition > c.Edition {
			state = chunkWaits
		}
		c, editor, changed = c.Apply(e), e.By, e.At
	}
	out := chunkJSON{ID: c.ID, Number: knowledge.NumberOf(c.ID), TenantID: tenantNumber(r), Document: c.Document, Base: c.Base, Content: c.Content, Edition: c.Edition,
		Indexed: state, Editor: editor, Index: c.Index, IsEnabled: !c.Disabled, Status: 2, Start: c.Start, End: c.End, Kind: c.Kind, Parent: c.Parent, Hash: c.Digest,
		CreatedAt: s.DoneAt, UpdatedAt: changed, Context: c.Context, Tokens: c.Tokens}
	if c.FAQ != nil && c.FAQ.Recommended {
		out.Flags = 1
	}
	if c.FAQ != nil {
		out.Metadata = body{"standard_question": c.FAQ.Question, "similar_questions": c.FAQ.Similar, "negative_questions": c.FAQ.Negative, "answers": c.FAQ.Answers,
			"answer_strategy": c.FAQ.Strategy}
	}
	return out
}

// editOf finds the newest edit of a chunk; only those of the revision that the
// index has count.
func editOf(s knowledge.State, c knowledge.Chunk) (knowledge.ChunkEdited, bool) {
	if c.Revision != s.Revision {
		return knowledge.ChunkEdited{}, false
	}
	return s.Edit(c.Index)
}

// deletedChunk tells whether somebody has deleted a chunk.
func deletedChunk(s knowledge.State, c knowledge.Chunk) bool {
	e, edited := editOf(s, c)
	return edited && e.Deleted
}

// chunkPage is how many chunks are read from the index at once, and maxChunkPage
// how many a page shows.
const (
	chunkPage    = 1000
	maxChunkPage = 100
)

// listChunks shows the chunks of a document in order.
func (a *API) listChunks(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	page, err := number(r, "page", 1, 0, maxOffset)
	if err != nil {
		return 0, nil, err
	}
	size, err := number(r, "page_size", 10, 0, maxPage)
	if err != nil {
		return 0, nil, err
	}
	page = max(page, 1)
	if size == 0 {
		size = 10
	}
	size = min(size, maxChunkPage)
	kinds := []knowledge.Kind{}
	for _, k := range r.URL.Query()["chunk_type"] {
		if k != "" && len(k) < 32 && len(kinds) < 12 && !slices.Contains(kinds, knowledge.Kind(k)) {
			kinds = append(kinds, knowledge.Kind(k))
		}
	}
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err != nil {
		return 0, nil, err
	}
	if len(kinds) == 0 {
		if kinds = []knowledge.Kind{knowledge.Text}; d.State.Origin() == knowledge.OriginFAQ {
			kinds = []knowledge.Kind{knowledge.FAQText}
		}
	}
	found, total, err := a.chunksOf(r, d, kinds, (page-1)*size, size)
	if err != nil {
		return 0, nil, err
	}
	out := []chunkJSON{}
	for i, c := range found {
		row := wireChunk(r, d.State, c)
		if i > 0 {
			row.Previous = found[i-1].ID
		}
		if i+1 < len(found) {
			row.Next = found[i+1].ID
		}
		out = append(out, row)
	}
	return http.StatusOK, body{"success": true, "data": out, "total": total, "page": page, "page_size": size}, nil
}

// chunksOf gives a page of the chunks of a document that nobody has deleted, and
// how many there are.
func (a *API) chunksOf(r *http.Request, d *commands.Document, kinds []knowledge.Kind, offset, limit int) ([]knowledge.Chunk, int, error) {
	gone, err := a.deletedOf(r, d, kinds)
	if err != nil {
		return nil, 0, err
	}
	list := func(offset, limit int) ([]knowledge.Found, int, error) {
		return a.Index.List(r.Context(), knowledge.List{Tenant: tenant(r), Document: d.ID, Kinds: kinds, Disabled: true, Offset: offset, Limit: limit})
	}
	// The index has the places of deleted chunks still: the page begins so many
	// places later as there are deleted ones before it.
	at := offset
	for len(gone) > 0 {
		found, _, err := list(at, 1)
		if err != nil {
			return nil, 0, err
		}
		if len(found) == 0 {
			break
		}
		before, _ := slices.BinarySearch(gone, found[0].Index)
		if offset+before <= at {
			break
		}
		at = offset + before
	}
	var out []knowledge.Chunk
	for {
		found, total, err := list(at, limit)
		if err != nil {
			return nil, 0, err
		}
		for _, f := range found {
			if len(out) < limit && !deletedChunk(d.State, f.Chunk) {
				out = append(out, f.Chunk)
			}
		}
		if at += len(found); len(out) == limit || len(found) == 0 || at >= total || len(gone) == 0 {
			return out, max(total-len(gone), 0), nil
		}
	}
}

// deletedOf gives the places of the deleted chunks of some kinds, in order.
func (a *API) deletedOf(r *http.Request, d *commands.Document, kinds []knowledge.Kind) ([]int, error) {
	var ids []string
	for _, e := range d.State.Edits {
		if e.Deleted {
			ids = append(ids, e.Chunk)
		}
	}
	var out []int
	for part := range slices.Chunk(ids, chunkPage) {
		found, err := a.Index.Chunks(r.Context(), tenant(r), part...)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if slices.Contains(kinds, f.Kind) && deletedChunk(d.State, f.Chunk) {
				out = append(out, f.Index)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// findChunk gives a chunk with its document, which must be the one named unless
// that is "".
func (a *API) findChunk(r *http.Request, document, id string) (*commands.Document, knowledge.Chunk, error) {
	if document != "" {
		if _, err := a.document(r, document); err != nil {
			return nil, knowledge.Chunk{}, err
		}
	}
	found, err := a.Index.Chunks(r.Context(), tenant(r), id)
	if err != nil {
		return nil, knowledge.Chunk{}, err
	}
	if len(found) == 0 || document != "" && found[0].Chunk.Document != document {
		return nil, knowledge.Chunk{}, knowledge.ErrNoSuchChunk
	}
	d, err := a.document(r, found[0].Chunk.Document)
	if err == nil && deletedChunk(d.State, found[0].Chunk) {
		err = knowledge.ErrNoSuchChunk
	}
	return d, found[0].Chunk, err
}

func (a *API) getChunk(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	d, c, err := a.findChunk(r, "", chi.URLParam(r, "chunk"))
	if err != nil {
		return 0, nil, err
	}
	out := wireChunk(r, d.State, c)
	// The neighbour may be two places away: larger pieces stand between.
	var around []string
	for _, step := range []int{-2, -1, 1, 2} {
		if c.Index+step >= 0 {
			around = append(around, knowledge.ChunkID(c.Document, c.Revision, c.Index+step))
		}
	}
	found, err := a.Index.Chunks(r.Context(), tenant(r), around...)
	if err != nil {
		return 0, nil, err
	}
	slices.SortFunc(found, func(x, y knowledge.Found) int { return x.Index - y.Index })
	for _, f := range found {
		switch {
		case f.Kind != c.Kind || deletedChunk(d.State, f.Chunk):
		case f.Index < c.Index:
			out.Previous = f.Chunk.ID
		case out.Next == "":
			out.Next = f.Chunk.ID
		}
	}
	return http.StatusOK, ok(out), nil
}
