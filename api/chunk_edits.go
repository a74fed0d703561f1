package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
)

func (a *API) updateChunk(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Content *string `json:"content"`
		Enabled *bool   `json:"is_enabled"`
		Expect  *int    `json:"expected_revision"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if b.Content != nil && blank(*b.Content) {
		return 0, nil, invalid("content must hold a text; to take the chunk out, delete it or set is_enabled to false")
	}
	if err := bounded(bound{"content", textOf(b.Content), knowledge.MaxChunkText}); err != nil {
		return 0, nil, err
	}
	return a.editChunk(w, r, commands.ChunkEdit{Content: b.Content, Enabled: b.Enabled, Expect: b.Expect})
}

// editChunk edits the chunk in the path and answers with it as it is then.
func (a *API) editChunk(w http.ResponseWriter, r *http.Request, ed commands.ChunkEdit) (int, any, error) {
	d, c, err := a.findChunk(r, chi.URLParam(r, "document"), chi.URLParam(r, "chunk"))
	if err != nil {
		return 0, nil, err
	}
	_, pos, err := a.Commands.EditChunk(r.Context(), caller(r), c, ed)
	if err == nil {
		err = d.Refresh(r.Context())
	}
	if err != nil {
		return 0, nil, err
	}
	positionHeader(w, pos)
	out := ok(wireChunk(r, d.State, c))
	out["summary_status"], out["description"] = "none", d.State.Description
	return http.StatusOK, out, nil
}

func (a *API) deleteChunk(w http.ResponseWriter, r *http.Request) (int, any, error) {
	_, c, err := a.findChunk(r, chi.URLParam(r, "document"), chi.URLParam(r, "chunk"))
	if err != nil {
		return 0, nil, err
	}
	_, pos, err := a.Commands.EditChunk(r.Context(), caller(r), c, commands.ChunkEdit{Deleted: true})
	positionHeader(w, pos)
	return http.StatusOK, done("Chunk deleted"), err
}

// editsAtOnce is how many chunks one append deletes.
const editsAtOnce = 200

// deleteChunks deletes every chunk of a document, a few hundred in one step.
func (a *API) deleteChunks(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err != nil {
		return 0, nil, err
	}
	by, document, revision := caller(r), d.ID, d.State.Revision
	for from := 0; from < d.State.Chunks; from += editsAtOnce {
		_, err := d.Do(r.Context(), by, fmt.Sprintf("DeleteChunks %d", from), func(s knowledge.State) ([]knowledge.Command, error) {
			var out []knowledge.Command
			for i := from; i < min(from+editsAtOnce, s.Chunks); i++ {
				if e, edited := s.Edit(i); edited && e.Deleted || s.Revision != revision {
					continue
				}
				out = append(out, knowledge.EditChunk{ChunkEdited: knowledge.ChunkEdited{Index: i, Chunk: knowledge.ChunkID(document, s.Revision, i), Deleted: true,
					By: by.Principal, At: a.Commands.Now().UTC()}})
			}
			return out, nil
		})
		if err != nil {
			return 0, nil, err
		}
		by.Versions = nil // it was the version at the first step
	}
	return http.StatusOK, done("All chunks of the document are deleted"), nil
}

// editionJSON is one wording of a chunk.
type editionJSON struct {
	ID        string    `json:"id"`
	TenantID  int64     `json:"tenant_id"`
	Base      string    `json:"knowledge_base_id"`
	Document  string    `json:"knowledge_id"`
	Chunk     string    `json:"chunk_id"`
	Edition   int       `json:"revision"`
	Content   string    `json:"content"`
	IsEnabled bool      `json:"is_enabled"`
	Editor    string    `json:"editor_id"`
	Source    string    `json:"edit_source"`
	EditedAt  time.Time `json:"edited_at"`
	CreatedAt time.Time `json:"created_at"`
}

// editions gives the wordings of a chunk, oldest first; the first is what the
// document was cut into.
func (a *API) editions(r *http.Request, d *commands.Document, c knowledge.Chunk) ([]knowledge.ChunkEdited, error) {
	edits, err := a.Commands.ChunkEditions(r.Context(), tenant(r), d.ID, c.ID)
	if err != nil {
		return nil, err
	}
	first := knowledge.ChunkEdited{Revision: c.Revision, Index: c.Index, Chunk: c.ID, Content: c.Content, At: d.State.DoneAt}
	if len(edits) > 0 {
		if first.Content, err = a.slice(r, d, c.Index); err != nil {
			return nil, err
		}
	}
	return append([]knowledge.ChunkEdited{first}, edits...), nil
}

// maxSlices bounds the list of pieces that is read, in bytes.
const maxSlices = 256 << 20

// slice gives the text of a piece as the document was cut into it.
func (a *API) slice(r *http.Request, d *commands.Document, index int) (string, error) {
	if d.State.Chunked == nil {
		return "", knowledge.ErrNoSuchChunk
	}
	f, _, err := a.Blobs.Open(r.Context(), tenant(r), d.State.Chunked.Slices.Digest)
	if err != nil {
		return "", err
	}
	defer f.Close()
	list := json.NewDecoder(io.LimitReader(f, maxSlices))
	if _, err := list.Token(); err != nil {
		return "", fmt.Errorf("the pieces of document %s: %w", d.ID, err)
	}
	for i := 0; list.More(); i++ {
		var s knowledge.Slice
		if err := list.Decode(&s); err != nil {
			return "", fmt.Errorf("the pieces of document %s: %w", d.ID, err)
		}
		if i == index {
			return s.Content, nil
		}
	}
	return "", knowledge.ErrNoSuchChunk
}

func (a *API) listEditions(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	d, c, err := a.findChunk(r, chi.URLParam(r, "document"), chi.URLParam(r, "chunk"))
	if err != nil {
		return 0, nil, err
	}
	all, err := a.editions(r, d, c)
	if err != nil {
		return 0, nil, err
	}
	out := make([]editionJSON, len(all))
	for i, e := range all {
		source := "user"
		if e.Edition == 0 {
			source = "parse"
		}
		out[len(all)-1-i] = editionJSON{ID: knowledge.DerivedID("edition", c.ID, itoa(e.Edition)), TenantID: tenantNumber(r), Base: c.Base, Document: c.Document, Chunk: c.ID,
			Edition: e.Edition, Content: e.Content, IsEnabled: !e.Disabled, Editor: e.By, Source: source, EditedAt: e.At, CreatedAt: e.At}
	}
	return http.StatusOK, ok(out), nil
}

// revertChunk gives a chunk an earlier wording again, as a new one.
func (a *API) revertChunk(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Edition *int `json:"revision"`
		Expect  *int `json:"expected_revision"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if b.Edition == nil {
		return 0, nil, invalid("revision is required: the number of the wording to go back to")
	}
	d, c, err := a.findChunk(r, chi.URLParam(r, "document"), chi.URLParam(r, "chunk"))
	if err != nil {
		return 0, nil, err
	}
	all, err := a.editions(r, d, c)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range all {
		if e.Edition == *b.Edition && !e.Deleted {
			return a.editChunk(w, r, commands.ChunkEdit{Content: &e.Content, Expect: b.Expect})
		}
	}
	return 0, nil, domain.Reject(domain.Missing, "chunk_revision_not_found", "the chunk has no such revision")
}
