package projections

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
)

// Frame is one message of the SSE feed. ID is a place in the log, valid for
// ever on every route: what follows a frame is exactly the rest. Data is the
// JSON of one line; the same frame has the same bytes whenever and wherever it
// is made.
type Frame struct {
	ID       string
	Data     []byte
	Terminal bool
}

// FrameID names the k-th frame that a fact causes. The frames of a model call
// that is in progress belong to the fact that began it.
func FrameID(at event.Position, k int) string { return string(at) + "." + strconv.Itoa(k) }

// SplitFrameID is the inverse of FrameID; false for anything else.
func SplitFrameID(id string) (event.Position, int, bool) {
	i := strings.LastIndexByte(id, '.')
	if i <= 0 || len(id) > 100 {
		return "", 0, false
	}
	k, err := strconv.Atoi(id[i+1:])
	if err != nil || k < 0 || strconv.Itoa(k) != id[i+1:] {
		return "", 0, false
	}
	return event.Position(id[:i]), k, true
}

// frameBody is the JSON of a frame; field order and presence are wire format.
type frameBody struct {
	ID      string `json:"id"`
	Type    string `json:"response_type"`
	Content string `json:"content"`
	Done    bool   `json:"done"`

	References []tool.Reference `json:"knowledge_references,omitempty"`

	Session   string         `json:"session_id,omitempty"`
	Assistant string         `json:"assistant_message_id,omitempty"`
	Data      map[string]any `json:"data,omitempty"`
	Usage     *run.Usage     `json:"usage,omitempty"`
	Finish    string         `json:"finish_reason,omitempty"`
}

// maxFrame bounds a frame's JSON: clients fail on lines of 4 MiB.
const maxFrame = 1 << 20

func (b frameBody) encode() []byte {
	out, err := json.Marshal(b) // escapes <, > and & as clients expect
	if err == nil && len(out) <= maxFrame {
		return out
	}
	small := map[string]any{"omitted": "the payload is too large for the feed; read the message or the tool log"}
	for name, v := range b.Data { // ids and outcomes stay: clients need them to place the frame
		if value, err := json.Marshal(v); err == nil && len(value) <= maxFrame/256 {
			small[name] = v
		}
	}
	b.Data = small
	if len(b.Content) > maxText {
		b.Content = strings.ToValidUTF8(b.Content[:maxText], "")
	}
	out, err = json.Marshal(b)
	if err != nil {
		panic("encode a frame of plain values: " + err.Error())
	}
	return out
}

// maxText bounds the text of one frame; longer text goes on in the next one. In
// JSON it can become six times as long.
const maxText = maxFrame / 8

// pieces cuts text for frames, never inside a character.
func pieces(text string) []string {
	var out []string
	for len(text) > maxText {
		n := maxText
		for n > maxText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, text)
}
