package openai

import (
	"regexp"
	"strings"
	"unicode"
)

// maxPreview is how many runes of a server's words an error repeats.
const maxPreview = 240

var secret = regexp.MustCompile(`(?i)\b(?:sk|pk|gsk|xai|AIza)[-_][A-Za-z0-9*._-]{6,}|\bAIza[A-Za-z0-9_-]{16,}|\bbearer\s+[^\s"',;]+|\b(api[-_]?key|token|secret|password)(["']?\s*[=:]\s*["']?)[^\s"',;&]{6,}`)

// words makes the message of an error: what happened, what the server said and
// what to do. The server's words are shortened; no key is in the result.
func (c *Client) words(what, said, todo string) string {
	var b strings.Builder
	b.WriteString(c.redact(what))
	if said = c.preview(said); said != "" {
		b.WriteString(": ")
		b.WriteString(said)
	}
	if todo != "" {
		b.WriteString(" (")
		b.WriteString(todo)
		b.WriteString(")")
	}
	return b.String()
}

// preview makes foreign text one short line without keys.
func (c *Client) preview(text string) string {
	text = strings.ToValidUTF8(c.redact(text), "?")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	runes := []rune(text)
	if len(runes) > maxPreview {
		text = string(runes[:maxPreview]) + "..."
	}
	return text
}

func (c *Client) redact(text string) string {
	// A shorter key is no secret, and replacing it would spoil every message.
	if len(c.cfg.APIKey) >= 4 {
		text = strings.ReplaceAll(text, c.cfg.APIKey, "[key]")
	}
	return secret.ReplaceAllString(text, "$1$2[key]")
}
