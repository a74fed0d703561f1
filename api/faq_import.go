package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/knowledge"
)

// maxImportBody bounds a list of entries, in bytes. The file that holds it can't
// be larger either, because few of them are in memory at a time.
const maxImportBody = 32 << 20

// importEntries asks for an import, which is done in the background.
func (a *API) importEntries(w http.ResponseWriter, r *http.Request) (int, any, error) {
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	if r.ContentLength < 0 || r.ContentLength > maxBody {
		select {
		case a.large <- struct{}{}:
			defer func() { <-a.large }()
		case <-r.Context().Done():
			return 0, nil, r.Context().Err()
		}
	}
	var in struct {
		Entries []entryBody `json:"entries"`
		Mode    string      `json:"mode"`
		Task    string      `json:"task_id"`
		Dry     bool        `json:"dry_run"`
	}
	if err := decode(w, r, maxImportBody, &in); err != nil {
		return 0, nil, err
	}
	switch {
	case len(in.Entries) == 0 || len(in.Entries) > knowledge.MaxImport:
		return 0, nil, invalid("entries has 1 to " + itoa(knowledge.MaxImport) + " entries; split the list")
	case len(in.Task) > 64 || strings.ContainsFunc(in.Task, func(c rune) bool { return c <= ' ' || c > '~' }):
		return 0, nil, invalid("task_id has at most 64 printable ASCII characters without blanks")
	case in.Mode != knowledge.ImportAppend && in.Mode != knowledge.ImportReplace:
		return 0, nil, invalid(`mode must be "append" or "replace"`)
	}
	rows := make([]knowledge.ImportRow, len(in.Entries))
	for i, e := range in.Entries {
		rows[i] = knowledge.ImportRow{Number: e.ID, Question: e.Question, Similar: e.Similar, Negative: e.Negative, Answers: e.Answers, Strategy: e.Strategy,
			Recommended: e.Recommended == nil || *e.Recommended, Disabled: e.Enabled != nil && !*e.Enabled, Tag: e.TagName, Otherwise: Untagged}
		if t, found := tagOf(b, itoa64(e.Tag)); found && e.TagName == "" {
			rows[i].Tag = t.Name
		}
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return 0, nil, err
	}
	blob, err := a.keep(r, raw)
	if err != nil {
		return 0, nil, err
	}
	id, pos, err := a.Commands.ImportEntries(r.Context(), caller(r), commands.ImportEntries{Task: in.Task, Base: b.ID, Mode: in.Mode, Rows: blob, Total: len(rows), Dry: in.Dry})
	positionHeader(w, pos)
	return http.StatusOK, ok(body{"task_id": id}), err
}

// importedJSON is a row of an import that has become an entry.
type importedJSON struct {
	Index    int    `json:"index"`
	Number   int64  `json:"seq_id"`
	Question string `json:"standard_question"`
}

// failedJSON is a row that has not.
type failedJSON struct {
	Index    int    `json:"index"`
	Reason   string `json:"reason"`
	Question string `json:"standard_question"`
}

// importProgress tells how far an import is.
func (a *API) importProgress(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	id := chi.URLParam(r, "task")
	im, err := a.Commands.Import(r.Context(), tenant(r), id)
	if err != nil {
		return 0, nil, err
	}
	q, t := im.Requested, im.Tally
	b, err := a.Commands.Base(r.Context(), tenant(r), q.Base)
	if errors.Is(err, knowledge.ErrNoBase) {
		err = knowledge.ErrNoImport
	}
	if err != nil {
		return 0, nil, err
	}
	out := body{"task_id": id, "kb_id": q.Base, "knowledge_id": "", "status": "pending", "progress": t.Done * 100 / max(q.Total, 1), "processed": t.Done, "total": q.Total,
		"success_count": t.Added + t.Merged, "failed_count": t.Failed, "skipped_count": t.Skipped, "merged_count": t.Merged, "added_count": t.Added, "message": "Waiting",
		"error": "", "created_at": q.At.Unix(), "updated_at": im.UpdatedAt.Unix(), "dry_run": q.Dry, "import_mode": q.Mode, "display_status": displayOf(b.Settings)}
	switch {
	case im.Failed != nil:
		out["status"], out["message"], out["error"], out["progress"] = "failed", im.Failed.Message, im.Failed.Message, t.Done*100/max(q.Total, 1)
	case im.Completed != nil:
		out["status"], out["progress"], out["message"], out["imported_at"] = "completed", 100, "Done", im.Completed.At
		out["processing_time"] = im.Completed.At.Sub(q.At).Milliseconds()
	case im.Attempts > 0:
		out["status"], out["message"] = "processing", "Importing"
	}
	if im.Completed != nil && im.Completed.Report.Digest != "" {
		if err := a.report(r, im.Completed.Report, out); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, ok(out), nil
}

// maxReport bounds the report of an import that is read, in bytes.
const maxReport = 64 << 20

// report adds what became of each row.
func (a *API) report(r *http.Request, blob knowledge.Blob, out body) error {
	f, _, err := a.Blobs.Open(r.Context(), tenant(r), blob.Digest)
	if err != nil {
		return err
	}
	defer f.Close()
	var all []knowledge.ImportNote
	if err := json.NewDecoder(io.LimitReader(f, maxReport)).Decode(&all); err != nil {
		return fmt.Errorf("the report of an import: %w", err)
	}
	good, bad, valid, merged := []importedJSON{}, []failedJSON{}, []int{}, []int{}
	for _, n := range all {
		switch n.Outcome {
		case "failed":
			bad = append(bad, failedJSON{n.Row, n.Reason, n.Question})
			continue
		case "merged":
			merged = append(merged, n.Row)
		}
		valid = append(valid, n.Row)
		if n.Number != 0 {
			good = append(good, importedJSON{n.Row, n.Number, n.Question})
		}
	}
	out["success_entries"], out["failed_entries"], out["valid_entry_indices"], out["merge_entry_indices"] = good, bad, valid, merged
	return nil
}

// displaySetting is where a base keeps whether people see the result of the last
// import.
const displaySetting = "faq_import_display"

func displayOf(s knowledge.Settings) string {
	var shown string
	if json.Unmarshal(s.Other[displaySetting], &shown) != nil {
		return "open"
	}
	return shown
}

func (a *API) displayImport(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Status string `json:"display_status"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	if in.Status != "open" && in.Status != "close" {
		return 0, nil, invalid(`display_status must be "open" or "close"`)
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	pos, err := a.Commands.ChangeBase(r.Context(), caller(r), b.ID, commands.BaseChange{Other: map[string]json.RawMessage{displaySetting: json.RawMessage(`"` + in.Status + `"`)}})
	positionHeader(w, pos)
	return http.StatusOK, body{"success": true}, err
}
