package api

import (
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/domain/knowledge"
)

var errNoContent = notFound("the document has no file: it has not been fetched yet, or it is an FAQ entry")

// downloadDocument gives the bytes of a document, to be kept.
func (a *API) downloadDocument(w http.ResponseWriter, r *http.Request) {
	a.sendDocument(w, r, "attachment", func(string, string) string { return "application/octet-stream" })
}

// previewDocument gives them to be looked at, as what their name says they are.
func (a *API) previewDocument(w http.ResponseWriter, r *http.Request) {
	a.sendDocument(w, r, "inline", func(kind, encoding string) string {
		known := map[string]string{"md": "text/markdown", "markdown": "text/markdown", "csv": "text/csv", "tsv": "text/tab-separated-values", "json": "application/json",
			"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
			"pdf": "application/pdf", "html": "text/html", "htm": "text/html"}[kind]
		switch {
		case known == "":
			known = "text/plain"
		case !strings.HasPrefix(known, "text/"):
			return known
		}
		if encoding == "" {
			encoding = "utf-8"
		}
		return mime.FormatMediaType(known, map[string]string{"charset": encoding})
	})
}

func (a *API) sendDocument(w http.ResponseWriter, r *http.Request, disposition string, typeOf func(kind, encoding string) string) {
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err == nil && (d.State.Content.Digest == "" || d.State.Origin() == knowledge.OriginFAQ) {
		err = errNoContent
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	s, encoding := d.State, ""
	if s.Parsed != nil {
		encoding = s.Parsed.Encoding
	}
	name := s.FileName
	if name == "" {
		if name = fileName(strings.ReplaceAll(s.Title, "/", "-")); path.Ext(name) == "" || s.Origin() == knowledge.OriginManual {
			name += "." + s.FileType
		}
	}
	a.sendBlob(w, r, domain.Media{Digest: s.Content.Digest, Name: strings.TrimSuffix(name, "."), Type: typeOf(s.FileType, encoding)}, disposition)
}
