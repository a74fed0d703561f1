package citation

import (
	"regexp"
	"strconv"
	"strings"
)

// Decoder turns the handles in a stream of text into citations, across any
// boundary between pieces. It holds back only what may be the beginning of a
// handle or a tag. One for each channel of a reply; not safe for concurrent use.
//
// <ref id="c3"/> and [c3] become citations of what c3 stands for; a ref to
// anything unknown disappears, and so do citations that the model wrote itself,
// whose ids nobody has checked. Code blocks are left as they are.
type Decoder struct {
	registry *Registry
	cite     bool

	held  string
	fence string // that closes the code block, "" outside
	line  string // the line so far, up to maxFenceLine bytes, to find fences
}

// NewDecoder decodes with what a registry knows; without cite, citations are
// left out.
func NewDecoder(r *Registry, cite bool) *Decoder { return &Decoder{registry: r, cite: cite} }

// Bytes that a tag and a list in brackets have at most, and so what is held back.
// A longer one is text, however it comes in pieces.
const (
	maxTag       = 400
	maxBracket   = 60
	maxFenceLine = 8
)

// Write takes the next piece and gives what can be shown by now.
func (d *Decoder) Write(piece string) string {
	d.held += piece
	return d.take(false)
}

// Flush gives what is still held back, at the end of the stream.
func (d *Decoder) Flush() string { return d.take(true) }

func (d *Decoder) take(end bool) string {
	var out strings.Builder
	for d.held != "" {
		i := strings.IndexAny(d.held, "<[【rR")
		if d.fence != "" {
			i = -1
		}
		// Code blocks begin at a line's start, so text up to the next line break is
		// taken in one go.
		if n := strings.IndexByte(d.held, '\n'); n >= 0 && (i < 0 || n < i) {
			d.pass(&out, d.held[:n+1])
			continue
		}
		if i < 0 {
			d.pass(&out, d.held)
			break
		}
		if i > 0 {
			d.pass(&out, d.held[:i])
			continue
		}
		n, text, wait := d.special(end)
		if wait {
			break
		}
		if n == 0 {
			n = 1
			if strings.HasPrefix(d.held, "【") {
				n = len("【")
			}
			d.pass(&out, d.held[:n])
			continue
		}
		d.held = d.held[n:]
		d.line = "x" // what was there is no fence
		out.WriteString(text)
	}
	return out.String()
}

// pass lets text of at most one line through and watches for code fences.
func (d *Decoder) pass(out *strings.Builder, text string) {
	out.WriteString(text)
	d.held = d.held[len(text):]
	if room := maxFenceLine - len(d.line); room > 0 {
		d.line += text[:min(room, len(text))]
	}
	if !strings.HasSuffix(text, "\n") {
		return
	}
	mark := strings.TrimLeft(strings.TrimRight(d.line, "\r\n"), " ")
	switch {
	case d.fence == "" && (strings.HasPrefix(mark, "```") || strings.HasPrefix(mark, "~~~")):
		d.fence = mark[:3]
	case d.fence != "" && strings.HasPrefix(mark, d.fence):
		d.fence = ""
	}
	d.line = ""
}

var (
	refTag      = regexp.MustCompile(`^(?i)</?(ref|kb|web)(?:[\s/][^<>]*)?>`)
	refBegin    = regexp.MustCompile(`^(?i)<(/?(r(ef?)?|k(b)?|w(eb?)?)?|/?(ref|kb|web)[\s/][^<>]*)$`)
	refID       = regexp.MustCompile(`(?i)\bid\s*=\s*["']?\s*([cdbw][0-9]+(?:\s*[,;、]\s*[cdbw][0-9]+)*)`)
	bracket     = regexp.MustCompile(`^(?i)[\[【]\s*([cdbw][1-9][0-9]{0,5}(?:\s*[,;、]\s*[cdbw][1-9][0-9]{0,5})*)\s*[\]】]`)
	bracketPart = regexp.MustCompile(`^(?i)[\[【]\s*(?:[cdbw][0-9]{0,6}\s*[,;、]?\s*)*$`)
	listSplit   = regexp.MustCompile(`\s*[,;、]\s*`)
	resWhole    = regexp.MustCompile(`^(?i)res://([0-9]{4})`)
)

// special looks at what begins at the first byte held: how many bytes it takes
// and what stands for them, 0 for nothing special, or whether more is needed.
func (d *Decoder) special(end bool) (n int, text string, wait bool) {
	switch d.held[0] {
	case '<':
		if m := refTag.FindString(d.held); m != "" && len(m) <= maxTag {
			return len(m), d.expand(m), false
		}
		wait = len(d.held) < maxTag && refBegin.MatchString(d.held)
		if end && wait && strings.ContainsAny(d.held, " /\t\n") {
			return len(d.held), "", false // a tag that was cut off
		}
	case 'r', 'R':
		if m := resWhole.FindStringSubmatch(d.held); m != nil {
			i, _ := strconv.Atoi(m[1])
			if i >= 1 && i <= len(d.registry.resources) {
				return len(m[0]), d.registry.resources[i-1], false
			}
			return len(m[0]), "", false
		}
		const whole = "res://0000"
		wait = len(d.held) < len(whole) && strings.EqualFold(d.held[:min(len(d.held), 6)], whole[:min(len(d.held), 6)]) &&
			strings.Trim(d.held[min(len(d.held), 6):], "0123456789") == ""
	default:
		if m := bracket.FindStringSubmatch(d.held); m != nil && len(m[0]) <= maxBracket {
			if all, ok := d.list(m[1]); ok {
				return len(m[0]), all, false
			}
			return 0, "", false
		}
		wait = len(d.held) < maxBracket && bracketPart.MatchString(d.held)
	}
	return 0, "", wait && !end
}

// expand gives the citations of a tag.
func (d *Decoder) expand(tag string) string {
	if !strings.HasPrefix(strings.ToLower(tag), "<ref") {
		return ""
	}
	m := refID.FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	text, _ := d.list(m[1])
	return text
}

// list gives the citations of a list of handles, and whether all are known.
func (d *Decoder) list(handles string) (string, bool) {
	var b strings.Builder
	all := true
	for _, h := range listSplit.Split(handles, -1) {
		s, ok := d.registry.Source(h)
		if !ok {
			all = false
			continue
		}
		if d.cite {
			b.WriteString(s.Cite())
		}
	}
	return b.String(), all
}
