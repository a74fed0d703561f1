package api

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"refold/projections"
)

// exportEntries gives all entries of a base as a file.
func (a *API) exportEntries(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query().Get("format")
	b, err := a.faqBase(r)
	if err == nil && form != "" && form != "csv" && form != "json" {
		err = invalid(`format must be "csv" or "json"`)
	}
	if err == nil {
		err = a.fresh(r, projections.FAQEntries)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	q := projections.Query{Collection: projections.FAQEntries.ID(), Tenant: tenant(r), OrderBy: []projections.Order{{Field: "created_at"}},
		Where: []projections.Where{{Field: "base", Op: "=", Value: b.ID}}}
	x := newExport(w, form, b)
	err = a.walk(r, q, func(d projections.Document) error {
		rows, err := documents[projections.FAQEntry]([]projections.Document{d})
		if err == nil {
			err = x.row(wireEntry(rows[0], b))
		}
		return err
	})
	if err == nil {
		err = x.end()
	}
	if err != nil { // it has begun: who reads it sees that it is cut short
		a.log(r).Warn("an export of FAQ entries broke off", "base", b.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// exportJSON is an entry in an exported file, which can be imported again.
type exportJSON struct {
	ID          int64    `json:"id"`
	TagName     string   `json:"tag_name,omitempty"`
	Question    string   `json:"standard_question"`
	Similar     []string `json:"similar_questions,omitempty"`
	Negative    []string `json:"negative_questions,omitempty"`
	Answers     []string `json:"answers,omitempty"`
	Strategy    string   `json:"answer_strategy,omitempty"`
	IsEnabled   bool     `json:"is_enabled"`
	Recommended bool     `json:"is_recommended"`
}

// export writes entries one by one: an array of JSON, or CSV with a byte order
// mark, so that spreadsheets read it as UTF-8.
type export struct {
	w    io.Writer
	csv  *csv.Writer // nil = JSON
	rows int
}

func newExport(w http.ResponseWriter, form string, b projections.BaseEntry) *export {
	x := &export{w: w}
	kind, ext := "application/json", ".json"
	if form != "json" {
		kind, ext, x.csv = "text/csv; charset=utf-8", ".csv", csv.NewWriter(w)
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(strings.ReplaceAll(b.Name, "/", "-")) + ext}))
	return x
}

var exportColumns = []string{"id", "tag_name", "standard_question", "similar_questions", "negative_questions", "answers", "answer_strategy", "is_enabled", "is_recommended"}

func (x *export) begin() error {
	if x.csv == nil {
		_, err := io.WriteString(x.w, "[")
		return err
	}
	if _, err := io.WriteString(x.w, "\ufeff"); err != nil {
		return err
	}
	return x.csv.Write(exportColumns)
}

func (x *export) row(e entryJSON) error {
	if x.rows == 0 {
		if err := x.begin(); err != nil {
			return err
		}
	}
	x.rows++
	if x.csv != nil {
		return x.csv.Write([]string{itoa64(e.ID), cell(e.TagName), cell(e.Question), cell(e.Similar...), cell(e.Negative...), cell(e.Answers...), e.Strategy,
			strconv.FormatBool(e.IsEnabled), strconv.FormatBool(e.Recommended)})
	}
	raw, err := json.Marshal(exportJSON{e.ID, e.TagName, e.Question, e.Similar, e.Negative, e.Answers, e.Strategy, e.IsEnabled, e.Recommended})
	if err != nil {
		return err
	}
	if x.rows > 1 {
		raw = append([]byte(",\n"), raw...)
	}
	_, err = x.w.Write(raw)
	return err
}

// cell is a list in one cell, an item a line. What a spreadsheet would take for a
// formula is marked as text.
func cell(items ...string) string {
	text := strings.Join(items, "\n")
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (x *export) end() error {
	if x.rows == 0 {
		if err := x.begin(); err != nil {
			return err
		}
	}
	if x.csv != nil {
		x.csv.Flush()
		return x.csv.Error()
	}
	_, err := io.WriteString(x.w, "]\n")
	return err
}
