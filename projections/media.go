package projections

import (
	"refold/domain/session"
)

// MessageImage is an image of a question; Caption is what a model saw in it, if
// one was asked.
type MessageImage struct {
	Type    string `json:"type"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`
	Caption string `json:"caption,omitempty"`
}

// MessageFile is a file of a question. Truncated tells that the question carries
// its beginning only.
type MessageFile struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Truncated bool   `json:"truncated,omitempty"`
}

func imagesOf(e session.MessagePosted) []MessageImage {
	var out []MessageImage
	for _, m := range e.Images {
		out = append(out, MessageImage{Type: m.Type, Digest: m.Digest, Size: m.Size})
	}
	return out
}

func filesOf(e session.MessagePosted) []MessageFile {
	var out []MessageFile
	for _, m := range e.Files {
		out = append(out, MessageFile{ID: m.ID, Name: m.Name, Type: m.Type, Digest: m.Digest, Size: m.Size, Truncated: len([]rune(m.Excerpt)) < m.Runes})
	}
	return out
}

// caption adds what a model saw in the images of a question.
func caption(v *View, tenant, question string, captions []string) {
	m := Get[Message](v, "", tenant, question)
	if m == nil {
		return
	}
	for i := range m.Images {
		if i < len(captions) {
			m.Images[i].Caption = captions[i]
		}
	}
	putMessage(v, tenant, m)
}
