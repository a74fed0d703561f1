package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// moveDocuments asks for documents to be moved to another base, in the background.
func (a *API) moveDocuments(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Documents []string `json:"knowledge_ids"`
		Source    string   `json:"source_kb_id"`
		Target    string   `json:"target_kb_id"`
		Mode      string   `json:"mode"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	switch {
	case len(in.Documents) == 0 || len(in.Documents) > knowledge.MaxMove:
		return 0, nil, invalid("knowledge_ids has 1 to " + itoa(knowledge.MaxMove) + " ids of documents")
	case in.Target == "":
		return 0, nil, invalid("target_kb_id is required: the id of a knowledge base")
	case in.Mode != knowledge.TransferKeep && in.Mode != knowledge.TransferReparse:
		return 0, nil, invalid(`mode must be "reuse_vectors" or "reparse"`)
	}
	if _, err := a.fitting(r, in.Source, in.Target); err != nil {
		return 0, nil, err
	}
	var ids []string
	known := map[string]bool{}
	for _, id := range in.Documents {
		d, err := a.document(r, id)
		if err == nil && d.State.Base() != in.Source {
			err = knowledge.ErrNoDocument
		}
		if err == nil && d.State.Status() != knowledge.StatusCompleted {
			err = domain.Reject(domain.Invalid, "not_completed", "a document can be moved when it is completed; this one is "+d.State.Status()).With(map[string]any{"knowledge_id": id})
		}
		if err != nil {
			return 0, nil, err
		}
		if !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	task, err := a.transfer(w, r, knowledge.TransferRequested{Source: in.Source, Target: in.Target, Mode: in.Mode, Move: true}, ids)
	return http.StatusOK, ok(body{"task_id": task, "source_kb_id": in.Source, "target_kb_id": in.Target, "knowledge_count": len(ids), "message": "The documents are moved in the background"}), err
}

// copyBase asks for what a base holds to be copied into another one, or into a new
// one with the same settings, in the background.
func (a *API) copyBase(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Task   string `json:"task_id"`
		Source string `json:"source_id"`
		Target string `json:"target_id"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	if len(in.Task) > 64 || strings.ContainsFunc(in.Task, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return 0, nil, invalid("task_id has at most 64 printable ASCII characters without blanks")
	}
	source, err := a.fitting(r, in.Source, in.Target)
	if err != nil {
		return 0, nil, err
	}
	if in.Task != "" && in.Target == "" { // before a base is made for it
		if t, err := a.Commands.Transfer(r.Context(), tenant(r), in.Task); err == nil && t.Requested != nil {
			return 0, nil, knowledge.ErrTransferring
		}
	}
	if err := a.fresh(r, projections.Library); err != nil {
		return 0, nil, err
	}
	ids := []string{}
	q := projections.Query{Collection: projections.Library.ID(), Tenant: tenant(r), Where: []projections.Where{{Field: "base", Op: "=", Value: in.Source}},
		OrderBy: []projections.Order{{Field: "created_at"}}}
	err = a.walk(r, q, func(d projections.Document) error {
		if ids = append(ids, d.ID); len(ids) > knowledge.MaxCopy {
			return invalid("the knowledge base holds more than " + itoa(knowledge.MaxCopy) + " documents, which can't be copied at once")
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	target := in.Target
	if target == "" {
		if target, _, err = a.copySettings(r, source); err != nil {
			return 0, nil, err
		}
	}
	task, err := a.transfer(w, r, knowledge.TransferRequested{Transfer: in.Task, Source: in.Source, Target: target, Mode: knowledge.TransferKeep}, ids)
	return http.StatusOK, ok(body{"task_id": task, "source_id": in.Source, "target_id": target, "message": "The documents are copied in the background"}), err
}

// fitting gives the source, and refuses a target that does not fit it; "" is none
// yet.
func (a *API) fitting(r *http.Request, source, target string) (knowledge.Base, error) {
	var both [2]knowledge.Base
	for i, id := range []string{source, target} {
		if i == 1 && id == "" {
			return both[0], nil
		}
		if id == "" {
			return both[0], invalid("the source is required: the id of a knowledge base")
		}
		if !isID(id) {
			return both[0], knowledge.ErrNoBase
		}
		var err error
		if both[i], err = a.Commands.Base(r.Context(), tenant(r), id); err != nil {
			return both[0], err
		}
	}
	return both[0], both[0].Fits(both[1])
}

// copySettings makes an empty base with the settings of another one.
func (a *API) copySettings(r *http.Request, b knowledge.Base) (string, event.Position, error) {
	name := []rune(b.Name)
	const suffix = " (copy)"
	by := caller(r)
	by.Versions = nil
	return a.Commands.CreateBase(r.Context(), by, commands.NewBase{Name: string(name[:min(len(name), knowledge.MaxName-len(suffix))]) + suffix,
		Kind: b.Kind(), Description: b.Description, Settings: b.Settings})
}

// transfer stores the list of documents and asks for them to be taken over.
func (a *API) transfer(w http.ResponseWriter, r *http.Request, t knowledge.TransferRequested, ids []string) (string, error) {
	raw, err := json.Marshal(ids)
	if err != nil {
		return "", err
	}
	if t.Documents, err = a.keep(r, raw); err != nil {
		return "", err
	}
	t.Total = len(ids)
	by := caller(r)
	by.Versions = nil
	id, pos, err := a.Commands.RequestTransfer(r.Context(), by, t)
	positionHeader(w, pos)
	return id, err
}

// moveProgress tells how far the moving of documents is.
func (a *API) moveProgress(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	t, out, err := a.transferred(r, true)
	if err != nil {
		return 0, nil, err
	}
	out["source_kb_id"], out["target_kb_id"], out["failed"] = t.Requested.Source, t.Requested.Target, t.Failed
	return http.StatusOK, ok(out), nil
}

// copyProgress tells how far the copying of a base is.
func (a *API) copyProgress(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	t, out, err := a.transferred(r, false)
	if err != nil {
		return 0, nil, err
	}
	out["source_id"], out["target_id"] = t.Requested.Source, t.Requested.Target
	return http.StatusOK, ok(out), nil
}

func (a *API) transferred(r *http.Request, move bool) (knowledge.Transfer, body, error) {
	id := chi.URLParam(r, "task")
	t, err := a.Commands.Transfer(r.Context(), tenant(r), id)
	if err == nil && t.Requested.Move != move {
		err = knowledge.ErrNoTransfer
	}
	if err != nil {
		return t, nil, err
	}
	out := body{"task_id": id, "status": "pending", "progress": t.Done * 100 / max(t.Requested.Total, 1), "processed": t.Done, "total": t.Requested.Total,
		"message": "Waiting", "error": t.Problem, "created_at": t.Requested.At.Unix(), "updated_at": t.UpdatedAt.Unix()}
	switch {
	case t.Ended != nil && t.Ended.Code != "":
		out["status"], out["message"], out["error"] = "failed", t.Ended.Message, t.Ended.Message
	case t.Ended != nil && t.Failed > 0 && t.Failed == t.Requested.Total:
		out["status"], out["message"] = "failed", "No document could be taken over"
	case t.Ended != nil:
		out["status"], out["progress"], out["message"] = "completed", 100, "Done"
		if t.Failed > 0 {
			out["message"] = itoa(t.Failed) + " documents stay where they are"
		}
	case t.Attempts > 0:
		out["status"], out["message"] = "processing", "At work"
	}
	return t, out, nil
}
