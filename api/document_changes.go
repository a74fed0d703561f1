package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// updateDocument changes what a document is called and what is noted about it.
// Clients send the whole document; what can't be changed this way is ignored.
func (a *API) updateDocument(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Title       *string          `json:"title"`
		Description *string          `json:"description"`
		Custom      *json.RawMessage `json:"custom_metadata"`
		Enabled     *string          `json:"enable_status"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if err := bounded(bound{"title", textOf(b.Title), knowledge.MaxTitle}, bound{"description", textOf(b.Description), knowledge.MaxDescription}); err != nil {
		return 0, nil, err
	}
	ch := commands.DocumentChange{Title: b.Title, Description: b.Description, Custom: b.Custom}
	if b.Enabled != nil && *b.Enabled != "" {
		if *b.Enabled != "enabled" && *b.Enabled != "disabled" {
			return 0, nil, invalid(`enable_status must be "enabled" or "disabled"`)
		}
		on := *b.Enabled == "enabled"
		ch.Enabled = &on
	}
	return a.onDocument(w, r, "Knowledge updated", func(by commands.Caller, id string) (event.Position, error) {
		return a.Commands.ChangeDocument(r.Context(), by, id, ch)
	})
}

// onDocument does something to the document in the path and answers with it.
func (a *API) onDocument(w http.ResponseWriter, r *http.Request, message string, do func(by commands.Caller, id string) (event.Position, error)) (int, any, error) {
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err != nil {
		return 0, nil, err
	}
	pos, err := do(caller(r), d.ID)
	if err != nil {
		return 0, nil, err
	}
	return a.answerDocument(w, r, http.StatusOK, d.ID, pos, message)
}

// reparseDocument reads a document again. What would come out the same is not
// made again, unless force asks for it.
func (a *API) reparseDocument(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Process json.RawMessage `json:"process_config"`
		Force   bool            `json:"force"` // ours
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	how, err := process(b.Process)
	if err != nil {
		return 0, nil, err
	}
	return a.onDocument(w, r, "Reading the document again", func(by commands.Caller, id string) (event.Position, error) {
		return a.Commands.ReparseDocument(r.Context(), by, id, how, b.Force)
	})
}

func (a *API) cancelDocument(w http.ResponseWriter, r *http.Request) (int, any, error) {
	return a.onDocument(w, r, "Processing cancelled", func(by commands.Caller, id string) (event.Position, error) {
		return a.Commands.CancelDocument(r.Context(), by, id)
	})
}

// deleteDocument deletes a document: nobody sees it any more; the index forgets it
// in the background, which is the task that the answer names.
func (a *API) deleteDocument(w http.ResponseWriter, r *http.Request) (int, any, error) {
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err != nil {
		return 0, nil, err
	}
	pos, err := a.Commands.DeleteDocument(r.Context(), caller(r), d.ID)
	positionHeader(w, pos)
	out := ok(body{"task_id": d.ID})
	out["message"] = "Knowledge deleted"
	return http.StatusOK, out, err
}

// deleteDocuments deletes documents one by one and says how many there were.
func (a *API) deleteDocuments(r *http.Request, ids []string) (int, error) {
	n := 0
	for _, id := range ids {
		switch _, err := a.Commands.DeleteDocument(r.Context(), caller(r), id); {
		case err == nil:
			n++
		case !errors.Is(err, knowledge.ErrNoDocument):
			return n, err
		}
	}
	return n, nil
}

// clearBase deletes all documents of a base.
func (a *API) clearBase(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	id := chi.URLParam(r, "base")
	if _, err := a.Commands.Base(r.Context(), tenant(r), id); err != nil {
		return 0, nil, err
	}
	n, err := a.deleteAll(r, []projections.Where{{Field: "base", Op: "=", Value: id}}, nil)
	out := ok(body{"deleted_count": n})
	out["message"] = "All documents of the knowledge base are deleted"
	return http.StatusOK, out, err
}

// batchBody names documents of one base.
type batchBody struct {
	Base      string          `json:"kb_id"`
	IDs       []string        `json:"ids"`
	Documents []string        `json:"knowledge_ids"`
	Folder    string          `json:"folder_path"`
	Process   json.RawMessage `json:"process_config"`
}

// batch reads the body of a change of several documents, and gives those that lie
// in the base.
func (a *API) batch(w http.ResponseWriter, r *http.Request, name string, b *batchBody) ([]string, error) {
	if err := decode(w, r, maxBody, b); err != nil {
		return nil, err
	}
	if b.Base == "" || !isID(b.Base) {
		return nil, invalid("kb_id is required: the knowledge base of the documents")
	}
	ids, err := batchIDs(name, append(b.IDs, b.Documents...))
	if err == nil {
		b.Process, err = process(b.Process)
	}
	if err != nil {
		return nil, err
	}
	if _, err := a.Commands.Base(r.Context(), tenant(r), b.Base); err != nil {
		return nil, err
	}
	return a.within(r, b.Base, ids)
}

// within keeps the ids of documents that lie in a base.
func (a *API) within(r *http.Request, base string, ids []string) ([]string, error) {
	var out []string
	for _, id := range ids {
		switch d, err := a.Commands.Document(r.Context(), tenant(r), id); {
		case errors.Is(err, knowledge.ErrNoDocument):
		case err != nil:
			return nil, err
		case d.State.Base() == base:
			out = append(out, id)
		}
	}
	return out, nil
}

func (a *API) deleteBatch(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b batchBody
	ids, err := a.batch(w, r, "ids", &b)
	if err != nil {
		return 0, nil, err
	}
	n, err := a.deleteDocuments(r, ids)
	return http.StatusOK, ok(body{"task_id": requestID(r), "deleted_count": n}), err
}

func (a *API) reparseBatch(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b batchBody
	ids, err := a.batch(w, r, "ids", &b)
	if err != nil {
		return 0, nil, err
	}
	n := 0
	for _, id := range ids {
		if _, err := a.Commands.ReparseDocument(r.Context(), caller(r), id, b.Process, false); err != nil {
			if errors.Is(err, knowledge.ErrNoDocument) {
				continue
			}
			return 0, nil, err
		}
		n++
	}
	return http.StatusOK, ok(body{"task_id": requestID(r), "reparse_count": n}), nil
}

// tagDocuments replaces the tags of several documents.
func (a *API) tagDocuments(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Base    string              `json:"kb_id"`
		Updates map[string][]string `json:"updates"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if len(b.Updates) == 0 || len(b.Updates) > maxBatch {
		return 0, nil, invalid("updates has 1 to " + itoa(maxBatch) + " documents, each with the list of its tags")
	}
	for id := range b.Updates { // nothing is done unless all of them are there
		d, err := a.document(r, id)
		if err == nil && b.Base != "" && d.State.Base() != b.Base {
			err = knowledge.ErrNoDocument
		}
		if err != nil {
			return 0, nil, err
		}
	}
	for id, tags := range b.Updates {
		if _, err := a.Commands.TagDocument(r.Context(), caller(r), id, tags); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, body{"success": true}, nil
}
