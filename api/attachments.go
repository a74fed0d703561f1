package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/domain/session"
)

// attachmentJSON is an attachment on the wire. It does not expire.
type attachmentJSON struct {
	ID        string     `json:"id"`
	TenantID  int64      `json:"tenant_id"`
	SessionID string     `json:"session_id"`
	FileName  string     `json:"file_name"`
	FileType  string     `json:"file_type"`
	MimeType  string     `json:"mime_type"`
	FileSize  int64      `json:"file_size"`
	Status    string     `json:"status"`
	Tokens    int        `json:"token_count"` // about
	Chunks    int        `json:"chunk_count"`
	Error     string     `json:"error_message,omitempty"`
	ExpiresAt *time.Time `json:"expires_at"`
	ReadyAt   *time.Time `json:"ready_at,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
}

func wireAttachment(r *http.Request, sessionID string, a session.AttachmentAdded) attachmentJSON {
	out := attachmentJSON{ID: a.ID, TenantID: tenantNumber(r), SessionID: sessionID, FileName: a.Name, FileType: fileType(a.Name), MimeType: a.Type,
		FileSize: a.Size, Status: a.Status, Error: a.Problem, CreatedAt: a.At, UpdatedAt: a.At}
	if a.Status == session.AttachmentReady {
		out.ReadyAt, out.Tokens, out.Chunks = &a.At, int(a.Size+3)/4, 1
	}
	return out
}

func fileType(name string) string { return strings.TrimPrefix(strings.ToLower(path.Ext(name)), ".") }

// addAttachment takes a file for later messages. Its text is read at once; a file
// without text is listed as failed.
func (a *API) addAttachment(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "session")
	if _, err := a.Commands.Session(r.Context(), tenant(r), id); err != nil {
		a.fail(w, r, err)
		return
	}
	select {
	case a.large <- struct{}{}:
		defer func() { <-a.large }()
	case <-r.Context().Done():
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFiles+maxBody)
	name, content, err := filePart(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	m, text, err := file(name, content)
	added := session.AttachmentAdded{Media: m, Status: session.AttachmentReady}
	if err != nil {
		added.Status, added.Problem = session.AttachmentFailed, err.Error()
	} else if added.Digest, err = a.Blobs.Put(r.Context(), tenant(r), text); err != nil {
		a.fail(w, r, err)
		return
	}
	added, pos, err := a.Commands.Attach(r.Context(), caller(r), id, added)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusAccepted, ok(wireAttachment(r, id, added)))
}

// filePart reads the part "file" of a multipart body.
func filePart(r *http.Request) (name string, content []byte, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return "", nil, invalid(`send the file as part "file" of multipart/form-data`)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return "", nil, invalid(`the body has no part "file"`)
		}
		if err == nil && part.FormName() != "file" {
			continue
		}
		if err == nil {
			content, err = io.ReadAll(io.LimitReader(part, maxFiles+1))
		}
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge), err == nil && len(content) > maxFiles:
			return "", nil, invalid("the file has more than " + size(maxFiles))
		case err != nil:
			return "", nil, invalid("the request body could not be read: " + err.Error())
		}
		return part.FileName(), content, nil
	}
}

func (a *API) listAttachments(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "session")
	s, err := a.Commands.Session(r.Context(), tenant(r), id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := []attachmentJSON{}
	for _, at := range s.Attachments {
		out = append(out, wireAttachment(r, id, at))
	}
	respond(w, http.StatusOK, ok(out))
}

// attachment finds the attachment in the path.
func (a *API) attachment(r *http.Request) (session.AttachmentAdded, error) {
	s, err := a.Commands.Session(r.Context(), tenant(r), chi.URLParam(r, "session"))
	if err != nil {
		return session.AttachmentAdded{}, err
	}
	at, found := s.Attachment(chi.URLParam(r, "attachment"))
	if !found {
		return at, session.ErrNoAttachment
	}
	return at, nil
}

func (a *API) getAttachment(w http.ResponseWriter, r *http.Request) {
	at, err := a.attachment(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, ok(wireAttachment(r, chi.URLParam(r, "session"), at)))
}

// previewAttachment gives the text that was read.
func (a *API) previewAttachment(w http.ResponseWriter, r *http.Request) {
	at, err := a.attachment(r)
	if err == nil && at.Status != session.AttachmentReady {
		err = notFound("this file could not be read: " + at.Problem)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	m := at.Media
	m.Type = "text/plain; charset=utf-8"
	a.serveBlob(w, r, m)
}

func (a *API) deleteAttachment(w http.ResponseWriter, r *http.Request) {
	pos, err := a.Commands.Detach(r.Context(), caller(r), chi.URLParam(r, "session"), chi.URLParam(r, "attachment"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	w.WriteHeader(http.StatusNoContent)
}

// imagePath names the n-th image of a message, from 0.
func imagePath(n int) string { return fmt.Sprintf("image-%d", n+1) }

// messageFile gives an image or a file that came with a message.
func (a *API) messageFile(w http.ResponseWriter, r *http.Request) {
	want := r.URL.Query().Get("file_path")
	s, err := a.Commands.Session(r.Context(), tenant(r), chi.URLParam(r, "session"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	post, found := s.Message(chi.URLParam(r, "message"))
	if !found {
		a.fail(w, r, session.ErrNoMessage)
		return
	}
	if want == "" {
		a.fail(w, r, invalid("file_path is required"))
		return
	}
	for i, m := range post.Images {
		if imagePath(i) == want {
			m.Name = want
			a.serveBlob(w, r, m)
			return
		}
	}
	i := slices.IndexFunc(post.Files, func(m domain.Media) bool { return m.Name == want })
	if i < 0 {
		a.fail(w, r, notFound("the message has no such file"))
		return
	}
	m := post.Files[i]
	m.Type = "text/plain; charset=utf-8"
	a.serveBlob(w, r, m)
}
