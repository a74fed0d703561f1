package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
)

// typedBody is a typed text. It is a draft, which nothing finds, unless it is
// published.
type typedBody struct {
	Title   string          `json:"title"`
	Content string          `json:"content"`
	Status  string          `json:"status"`
	Folder  string          `json:"folder_path"` // ours
	Tags    []string        `json:"tag_ids"`
	Channel string          `json:"channel"`
	Process json.RawMessage `json:"process_config"`
}

// maxTypedBody holds the longest text with every character escaped.
const maxTypedBody = 4 << 20

// check refuses what can't be taken, and puts process_config right.
func (b *typedBody) check() (err error) {
	n := utf8.RuneCountInString(b.Content)
	switch {
	case blank(b.Content):
		return domain.Reject(domain.Invalid, "content_required", "content is required: the text, as Markdown")
	case n > knowledge.MaxManual:
		return domain.Reject(domain.Invalid, "content_too_long", "content has more than "+itoa(knowledge.MaxManual)+" characters; split it, or upload it as a file")
	case b.Status != "" && b.Status != "draft" && b.Status != "publish":
		return invalid(`status must be "draft" or "publish"`)
	case slices.Contains(b.Tags, ""):
		return invalid("tag_ids holds ids or numbers of tags")
	}
	if _, err := knowledge.PlainFolder(b.Folder); err != nil {
		return err
	}
	if b.Process, err = process(b.Process); err != nil {
		return err
	}
	return bounded(bound{"title", b.Title, knowledge.MaxTitle}, bound{"channel", b.Channel, knowledge.MaxChannel})
}

// title is that of the text, or its first line.
func (b typedBody) title() string {
	if strings.TrimSpace(b.Title) != "" {
		return b.Title
	}
	for line := range strings.SplitSeq(b.Content, "\n") {
		if line = strings.TrimSpace(strings.TrimLeft(line, "#>-*` \t")); line != "" {
			if first := []rune(line); len(first) > 80 {
				return string(first[:80])
			}
			return line
		}
	}
	return "Untitled"
}

func (a *API) addManual(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b typedBody
	if err := decode(w, r, maxTypedBody, &b); err != nil {
		return 0, nil, err
	}
	if err := b.check(); err != nil {
		return 0, nil, err
	}
	base := chi.URLParam(r, "base")
	if _, err := a.Commands.Base(r.Context(), tenant(r), base); err != nil {
		return 0, nil, err
	}
	content, err := a.keep(r, []byte(b.Content))
	if err != nil {
		return 0, nil, err
	}
	return a.addDocument(w, r, http.StatusOK, commands.AddDocument{Base: base, Origin: knowledge.OriginManual, Title: b.title(), FileType: "md", Channel: channelOr(b.Channel),
		Folder: b.Folder, Tags: b.Tags, Process: b.Process, Content: content, Draft: b.Status != "publish"})
}

// updateManual replaces a typed text.
func (a *API) updateManual(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b typedBody
	if err := decode(w, r, maxTypedBody, &b); err != nil {
		return 0, nil, err
	}
	if err := b.check(); err != nil {
		return 0, nil, err
	}
	return a.onDocument(w, r, "", func(by commands.Caller, id string) (event.Position, error) {
		content, err := a.keep(r, []byte(b.Content))
		if err != nil {
			return "", err
		}
		return a.Commands.ReplaceText(r.Context(), by, id, b.Title, content, b.Status != "publish")
	})
}
