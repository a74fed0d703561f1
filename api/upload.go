package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
)

// DefaultUpload is the largest file for a knowledge base, in bytes, unless
// API.MaxUpload says otherwise.
const DefaultUpload = 50 << 20

func (a *API) maxUpload() int64 {
	if a.MaxUpload > 0 {
		return a.MaxUpload
	}
	return DefaultUpload
}

// form is what comes with a file.
type form struct {
	fields  map[string]string
	name    string // of the file, as the part names it
	content []byte
	done    func() // lets the next large file in
}

// uploadFile adds a file to a base.
func (a *API) uploadFile(w http.ResponseWriter, r *http.Request) (int, any, error) {
	base := chi.URLParam(r, "base")
	if _, err := a.Commands.Base(r.Context(), tenant(r), base); err != nil {
		return 0, nil, err
	}
	f, err := a.readForm(w, r)
	defer f.done()
	if err != nil {
		return 0, nil, err
	}
	add, err := a.fileOf(base, f)
	if err != nil {
		return 0, nil, err
	}
	if add.Content, err = a.keep(r, f.content); err != nil {
		return 0, nil, err
	}
	return a.addDocument(w, r, http.StatusOK, add)
}

// fileOf says what the form adds.
func (a *API) fileOf(base string, f form) (commands.AddDocument, error) {
	name, folder := f.name, f.fields["folder_path"]
	if given := strings.ReplaceAll(f.fields["fileName"], `\`, "/"); given != "" {
		if name = path.Base(given); folder == "" && path.Dir(given) != "." {
			folder = path.Dir(given)
		}
	}
	if err := bounded(bound{"fileName", f.fields["fileName"], knowledge.MaxFolder + knowledge.MaxFileName}, bound{"the name of the file", fileName(name), knowledge.MaxFileName},
		bound{"channel", f.fields["channel"], knowledge.MaxChannel}); err != nil {
		return commands.AddDocument{}, err
	}
	add := commands.AddDocument{Base: base, Origin: knowledge.OriginFile, FileName: fileName(name), FileType: fileType(fileName(name)), Folder: folder,
		Channel: channelOr(f.fields["channel"]), Tags: splitList(f.fields["tag_ids"])}
	if !slices.Contains(a.Types, add.FileType) {
		return add, a.unsupported(add.FileType)
	}
	if len(f.content) == 0 {
		return add, domain.Reject(domain.Invalid, "empty_file", "the file is empty")
	}
	for field, into := range map[string]*json.RawMessage{"metadata": &add.Metadata, "process_config": &add.Process} {
		if raw := strings.TrimSpace(f.fields[field]); raw != "" {
			var object map[string]any
			if json.Unmarshal([]byte(raw), &object) != nil {
				return add, invalid(field + " must be a JSON object")
			}
			*into = notNull(json.RawMessage(raw))
		}
	}
	var err error
	add.Process, err = process(add.Process)
	return add, err
}

// unsupported says which files are read.
func (a *API) unsupported(kind string) error {
	what := "files of type " + quote(kind)
	if kind == "" {
		what = "files without an extension"
	}
	advice := ""
	if newer := map[string]string{"xls": "xlsx", "doc": "docx"}[kind]; newer != "" {
		advice = "; save it as ." + newer + " and add that"
	}
	return domain.Reject(domain.Invalid, "unsupported_file_type", what+" are not read"+advice+"; supported are "+strings.Join(a.Types, ", ")).With(map[string]any{"supported": a.Types})
}

func channelOr(channel string) string {
	if channel == "" {
		return "api"
	}
	return channel
}

// splitList splits a list that is separated by commas.
func splitList(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// readForm reads a form with one file. Few large files are in memory at a time.
func (a *API) readForm(w http.ResponseWriter, r *http.Request) (form, error) {
	f := form{fields: map[string]string{}, done: func() {}}
	limit := a.maxUpload()
	r.Body = http.MaxBytesReader(w, r.Body, limit+maxBody)
	parts, err := r.MultipartReader()
	if err != nil {
		return f, invalid(`send the file as part "file" of multipart/form-data`)
	}
	found := false
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && found:
			return f, nil
		case errors.Is(err, io.EOF):
			return f, invalid(`the form has no part "file"`)
		case err == nil && n >= maxParts:
			return f, invalid("the form has more than " + itoa(maxParts) + " parts")
		case err == nil && part.FormName() == "file" && !found:
			found, f.name = true, part.FileName()
			err = a.readFile(r, part, &f)
		case err == nil:
			var value []byte
			if value, err = io.ReadAll(io.LimitReader(part, maxField+1)); err == nil && len(value) > maxField {
				return f, invalid("the field " + quote(part.FormName()) + " has more than " + size(maxField))
			}
			f.fields[part.FormName()] = strings.ToValidUTF8(string(value), "")
		}
		if err != nil {
			return f, formError(err, limit)
		}
	}
}

const (
	maxParts = 32
	maxField = 256 << 10 // bytes of a field that is no file
)

func formError(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	if _, refused := domain.AsRejection(err); refused {
		return err
	}
	if errors.As(err, &tooLarge) {
		return tooLargeFile(limit)
	}
	return invalid("the request body could not be read: " + err.Error())
}

func tooLargeFile(limit int64) error {
	return domain.Reject(domain.Invalid, "file_too_large", "the file has more than "+size(limit)+"; split it")
}

func (a *API) readFile(r *http.Request, part *multipart.Part, f *form) error {
	var content bytes.Buffer
	switch n, err := io.CopyN(&content, part, maxInMemory); {
	case errors.Is(err, io.EOF):
		f.content = content.Bytes()
		return nil
	case err != nil:
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	select {
	case a.large <- struct{}{}:
		f.done = func() { <-a.large }
	case <-r.Context().Done():
		return r.Context().Err()
	}
	limit := a.maxUpload()
	if _, err := io.Copy(&content, io.LimitReader(part, limit-maxInMemory+1)); err != nil {
		return err
	}
	if int64(content.Len()) > limit {
		return tooLargeFile(limit)
	}
	f.content = content.Bytes()
	return nil
}

// keep stores content.
func (a *API) keep(r *http.Request, content []byte) (knowledge.Blob, error) {
	digest, err := a.Blobs.Put(r.Context(), tenant(r), content)
	return knowledge.Blob{Digest: digest, Size: int64(len(content))}, err
}

// addDocument adds a document and answers with it; with the one that is there
// already, if it is the same.
func (a *API) addDocument(w http.ResponseWriter, r *http.Request, status int, add commands.AddDocument) (int, any, error) {
	added, err := a.Commands.AddDocument(r.Context(), caller(r), add)
	if rej, ok := domain.AsRejection(err); ok && (errors.Is(err, knowledge.ErrDuplicateFile) || errors.Is(err, knowledge.ErrDuplicateURL)) {
		id, _ := rej.Details["knowledge_id"].(string)
		d, shown := a.showDocument(w, r, id, "")
		if shown != nil {
			return 0, nil, err
		}
		return http.StatusConflict, body{"success": false, "message": rej.Message, "code": rej.Code, "data": d}, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return a.answerDocument(w, r, status, added.Document, added.Position, "")
}

// addURL adds what an address leads to. It is fetched in the background.
func (a *API) addURL(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		URL      string          `json:"url"`
		FileName string          `json:"file_name"`
		FileType string          `json:"file_type"`
		Title    string          `json:"title"`
		Folder   string          `json:"folder_path"` // ours
		Tags     []string        `json:"tag_ids"`
		Channel  string          `json:"channel"`
		Process  json.RawMessage `json:"process_config"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	how, err := process(b.Process)
	if err == nil {
		err = bounded(bound{"url", b.URL, knowledge.MaxURL}, bound{"title", b.Title, knowledge.MaxTitle}, bound{"file_name", b.FileName, knowledge.MaxFileName},
			bound{"file_type", b.FileType, knowledge.MaxFileType}, bound{"channel", b.Channel, knowledge.MaxChannel})
	}
	var plain string
	if err == nil {
		plain, err = knowledge.PlainURL(b.URL)
	}
	if err == nil && a.Reachable != nil {
		err = a.Reachable(plain)
	}
	if err != nil {
		return 0, nil, err
	}
	add := commands.AddDocument{Base: chi.URLParam(r, "base"), Origin: knowledge.OriginURL, Title: b.Title, URL: b.URL, Channel: channelOr(b.Channel), Folder: b.Folder,
		Tags: b.Tags, Process: how}
	if b.FileName != "" || b.FileType != "" {
		add.Origin, add.FileType = knowledge.OriginFileURL, strings.ToLower(strings.TrimPrefix(b.FileType, "."))
		if b.FileName != "" {
			add.FileName = fileName(b.FileName)
		}
		if add.FileType == "" {
			add.FileType = fileType(add.FileName)
		}
		if !slices.Contains(a.Types, add.FileType) {
			return 0, nil, a.unsupported(add.FileType)
		}
	}
	return a.addDocument(w, r, http.StatusCreated, add)
}
