package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"refold/domain"
	"refold/domain/session"
)

// Bounds of what comes with a message, in bytes.
const (
	maxImage     = 10 << 20
	maxFiles     = 100 << 20 // all files of a message, and one upload
	maxMediaBody = 208 << 20 // of a chat with images or files: both in base64, and the rest
	maxFileName  = 255
)

// How much of a file's text a question carries, in runes: all of it up to
// maxInline, else its first excerptRunes; the model reads the rest with a tool.
const (
	maxInline    = 8000
	excerptRunes = 2000
)

// largeAtOnce is how many bodies beyond maxChatBody are in memory at a time.
const largeAtOnce = 2

// Blobs keeps content by its digest; see handlers.Blobs.
type Blobs interface {
	Put(ctx context.Context, tenant string, content []byte) (digest string, err error)
	Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error)
}

// Contents says that content is in use, so that it is not collected before the
// fact that names it is recorded; see handlers.Contents.
type Contents interface {
	Keep(ctx context.Context, tenant string, digests ...string) (int, error)
}

// uploadJSON is a file inside the body of a chat.
type uploadJSON struct {
	Data     string `json:"data"` // base64
	FileName string `json:"file_name"`
}

// imageUpload is an image inside the body of a chat. What else the client sends
// with it, an address or a caption, is not taken.
type imageUpload struct {
	Data string `json:"data"` // data URI
}

// decodeChat reads the body of a chat. Only one with images or files may be
// larger than maxChatBody, and few of those are read at once; done lets the next
// one in.
func (a *API) decodeChat(w http.ResponseWriter, r *http.Request, b *chatBody) (done func(), err error) {
	done = func() {}
	body := http.MaxBytesReader(w, r.Body, maxMediaBody)
	head, err := io.ReadAll(io.LimitReader(body, maxChatBody+1))
	if err != nil {
		return done, invalid("the request body could not be read: " + err.Error())
	}
	r.Body = io.NopCloser(strings.NewReader(string(head)))
	if len(head) > maxChatBody {
		select {
		case a.large <- struct{}{}:
			done = sync.OnceFunc(func() { <-a.large })
		case <-r.Context().Done():
			return done, r.Context().Err()
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(string(head)), body), body}
	}
	if err := decode(w, r, maxMediaBody, b); err != nil {
		return done, err
	}
	if len(head) > maxChatBody && len(b.Images) == 0 && len(b.Uploads) == 0 {
		return done, &http.MaxBytesError{Limit: maxChatBody}
	}
	return done, nil
}

// media stores what comes with a message. What is wrong with it is said before
// anything is stored.
func (a *API) media(r *http.Request, sessionID string, b chatBody) (images, files []domain.Media, err error) {
	if len(b.Images) == 0 && len(b.Uploads) == 0 && len(b.AttachmentIDs) == 0 {
		return nil, nil, nil
	}
	if len(b.Images) > session.MaxImages {
		return nil, nil, invalid(fmt.Sprintf("at most %d images are taken with a message", session.MaxImages))
	}
	if len(b.Uploads)+len(b.AttachmentIDs) > session.MaxFiles {
		return nil, nil, invalid(fmt.Sprintf("at most %d files are taken with a message", session.MaxFiles))
	}
	s, err := a.Commands.Session(r.Context(), tenant(r), sessionID)
	if err != nil {
		return nil, nil, err
	}
	if len(b.Images) > 0 {
		if err := a.Commands.CheckImages(r.Context(), tenant(r), b.AgentID, b.ModelID); err != nil {
			return nil, nil, err
		}
	}
	var contents [][]byte
	var media []domain.Media
	for i, m := range b.Images {
		content, kind, err := image(m.Data)
		if err != nil {
			return nil, nil, invalid(fmt.Sprintf("images[%d]: %s", i, err))
		}
		contents, media = append(contents, content), append(media, domain.Media{Type: kind, Size: int64(len(content))})
	}
	total := 0
	for i, u := range b.Uploads {
		content, err := unbase64(u.Data)
		if err != nil {
			return nil, nil, invalid(fmt.Sprintf("attachment_uploads[%d]: data is no base64", i))
		}
		if total += len(content); total > maxFiles {
			return nil, nil, invalid("the files of a message have more than " + size(maxFiles) + " in all")
		}
		m, text, err := file(u.FileName, content)
		if err != nil {
			return nil, nil, invalid(fmt.Sprintf("attachment_uploads[%d]: %s", i, err))
		}
		contents, media = append(contents, text), append(media, m)
	}
	for i := range media {
		if media[i].Digest, err = a.Blobs.Put(r.Context(), tenant(r), contents[i]); err != nil {
			return nil, nil, err
		}
	}
	images, files = media[:len(b.Images):len(b.Images)], media[len(b.Images):]
	for _, id := range b.AttachmentIDs {
		at, found := s.Attachment(id)
		switch {
		case !found:
			return nil, nil, invalid("attachment_ids: this session has no attachment " + quote(id))
		case at.Status != session.AttachmentReady:
			return nil, nil, invalid("attachment_ids: " + quote(at.Name) + " could not be read: " + at.Problem)
		}
		switch n, err := a.Contents.Keep(r.Context(), tenant(r), at.Digest); {
		case err != nil:
			return nil, nil, err
		case n == 0: // it was taken off the list in this moment
			return nil, nil, invalid("attachment_ids: " + quote(at.Name) + " is gone; send it again")
		}
		files = append(files, at.Media)
	}
	return images, files, nil
}

// image takes an image out of a data URI. Its type is what its bytes say.
func image(uri string) (content []byte, kind string, err error) {
	head, data, found := strings.Cut(uri, ",")
	if !found || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, "", errors.New("data must be a data URI in base64, for example data:image/png;base64,...; addresses are not fetched")
	}
	if content, err = unbase64(data); err != nil {
		return nil, "", errors.New("data is no base64")
	}
	if len(content) > maxImage {
		return nil, "", errors.New("the image has more than " + size(maxImage))
	}
	kind = http.DetectContentType(content)
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return nil, "", errors.New("the content is no PNG, JPEG, GIF or WebP image")
	}
	return content, kind, nil
}

func unbase64(data string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.TrimSpace(data))
}

// errNoText says which files are read.
var errNoText = errors.New("only text in UTF-8 is read (txt, md, csv, json, yaml, xml, html, logs, source code and the like); convert the file to text")

// file takes the text of a file.
func file(name string, content []byte) (domain.Media, []byte, error) {
	m := domain.Media{Name: fileName(name), Size: int64(len(content))}
	m.Type = mime.TypeByExtension(path.Ext(m.Name))
	if !strings.HasPrefix(m.Type, "text/") {
		m.Type = "text/plain; charset=utf-8"
	}
	if len(content) == 0 {
		return m, nil, errors.New("the file is empty")
	}
	text := strings.TrimPrefix(string(content), "\ufeff")
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return m, nil, errNoText
	}
	m.Runes, m.Excerpt = utf8.RuneCountInString(text), text
	if m.Runes > maxInline {
		m.Excerpt = string([]rune(text[:min(len(text), excerptRunes*utf8.UTFMax)])[:excerptRunes])
	}
	return m, []byte(text), nil
}

// fileName is the last part of a name, printable, of bounded length.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, path.Base(strings.ReplaceAll(name, `\`, "/")))
	if len(name) > maxFileName {
		name = strings.ToValidUTF8(name[:maxFileName], "")
	}
	if name == "." || name == "/" || name == "" {
		name = "file.txt"
	}
	return name
}

// serveBlob answers with stored content, in a way that no browser runs it.
func (a *API) serveBlob(w http.ResponseWriter, r *http.Request, m domain.Media) {
	a.sendBlob(w, r, m, "inline")
}

// sendBlob does it with a disposition, inline or attachment.
func (a *API) sendBlob(w http.ResponseWriter, r *http.Request, m domain.Media, disposition string) {
	f, n, err := a.Blobs.Open(r.Context(), tenant(r), m.Digest)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", m.Type)
	h.Set("Content-Length", fmt.Sprint(n))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": m.Name}))
	w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(w, f) // the client may be gone
}
