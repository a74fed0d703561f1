package run

import (
	"fmt"
	"strings"
	"time"

	"refold/domain/tool"
)

// ImagesDescribed says in words what the images of the question show, for models
// that see none. Captions are in the order of the images.
type ImagesDescribed struct {
	Captions   []string  `json:"captions"`
	Model      string    `json:"model"` // that looked at them
	Usage      Usage     `json:"usage"`
	DurationMS int64     `json:"duration_ms"`
	At         time.Time `json:"at"`
}

func (ImagesDescribed) event() {}

// RecordImages reports what a model saw, within the model call that needs it.
type RecordImages struct {
	Call int
	ImagesDescribed
}

func (RecordImages) command() {}

func decideImages(s State, c RecordImages) []Event {
	if s.Over() || s.Model == nil || s.Model.Call != c.Call || len(s.Captions) > 0 {
		return nil
	}
	return []Event{c.ImagesDescribed}
}

// FileCall is the id under which the tool for long results reads the n-th file
// of the question, from 1.
func FileCall(n int) string { return fmt.Sprintf("attachment_%d", n) }

// Media is what came with the question, in words: descriptions of its images,
// and its files, framed as text from outside. "" if nothing did.
func (s State) Media() string {
	var b strings.Builder
	if len(s.Captions) > 0 {
		b.WriteString("Images that came with the question, as another model describes them:\n")
		for i, c := range s.Captions {
			b.WriteString(tool.Untrusted(fmt.Sprintf("image %d", i+1), c, "") + "\n")
		}
	}
	for i, f := range s.Start.Files {
		fmt.Fprintf(&b, "File %d of the question, %d characters", i+1, f.Runes)
		if shown := len([]rune(f.Excerpt)); shown < f.Runes {
			fmt.Fprintf(&b, "; its first %d follow. Read on with read_tool_result: call_id %q, offset %d", shown, FileCall(i+1), shown)
		}
		b.WriteString(".\n" + tool.Untrusted(f.Name, f.Excerpt, "") + "\n")
	}
	return b.String()
}

// Images are the references of the question's images (see domain.Media).
func (s State) Images() []string {
	var out []string
	for _, m := range s.Start.Images {
		out = append(out, m.Ref())
	}
	return out
}

// question is the message that a later turn reads.
func (s State) question() Message {
	m := Message{Role: "user", Content: s.Start.Query, Images: s.Images()}
	if media := s.Media(); media != "" {
		m.Content += "\n\n" + media
	}
	return m
}
