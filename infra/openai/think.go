package openai

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Piece is a stretch of text on one side of the think tags.
type Piece struct {
	Text     string
	Thinking bool
}

// ThinkSplitter tells a model's inline thinking from its answer. The tags are
// think, thinking, reasoning and thought, in any case. A block counts at the
// start of the text or after white space and goes to thinking, without its tags,
// also when it never ends. One closing tag that leads the text, with no opening
// one before it, is dropped. Everything else is answer, and so is everything
// inside fenced or inline code.
//
// The zero value is ready. Text may be split at any byte: the pieces of several
// writes, put together, are those of one write. Only a suffix that may still
// become a tag, or an unfinished character, is held back. Not safe for
// concurrent use.
type ThinkSplitter struct {
	held    string
	closer  string // the tag that ends the block we are in; "" outside
	started bool   // the answer has more than white space
	midWord bool   // the answer's last rune is not white space
	orphan  bool   // the leading closing tag has been seen
	code    codeSpan
}

var thinkOpeners = []string{"<think>", "<thinking>", "<reasoning>", "<thought>"}
var thinkClosers = []string{"</think>", "</thinking>", "</reasoning>", "</thought>"}

// Write takes the next text and gives what is certain so far.
func (s *ThinkSplitter) Write(text string) []Piece { return s.split(text, false) }

// Flush gives what was held back: no more text comes.
func (s *ThinkSplitter) Flush() []Piece { return s.split("", true) }

func (s *ThinkSplitter) split(text string, end bool) []Piece {
	in := s.held + text
	s.held = ""
	var out pieces
	for in != "" {
		var n int
		if s.closer != "" {
			n = s.thinking(in, end, &out)
		} else {
			n = s.answer(in, end, &out)
		}
		if n == 0 {
			s.held = in
			break
		}
		in = in[n:]
	}
	return out.done()
}

// thinking consumes from inside a block and returns how many bytes; 0 asks for
// more text.
func (s *ThinkSplitter) thinking(in string, end bool, out *pieces) int {
	if in[0] != '<' {
		n := strings.IndexByte(in, '<')
		if n < 0 {
			n = wholeRunes(in, end)
		}
		out.add(in[:n], true)
		return n
	}
	tag, more := matchTag(in, []string{s.closer})
	switch {
	case tag != "":
		s.closer = ""
		return len(tag)
	case more && !end:
		return 0
	}
	out.add(in[:1], true)
	return 1
}

// answer consumes one rune or one tag from outside a block.
func (s *ThinkSplitter) answer(in string, end bool, out *pieces) int {
	if in[0] == '<' && s.code.outside() {
		more := false
		if !s.midWord {
			tag, m := matchTag(in, thinkOpeners)
			if tag != "" {
				s.closer = "</" + tag[1:]
				return len(tag)
			}
			more = m
		}
		if !s.started && !s.orphan {
			tag, m := matchTag(in, thinkClosers)
			if tag != "" {
				s.orphan = true
				return len(tag)
			}
			more = more || m
		}
		if more && !end {
			return 0
		}
	}
	if !end && !utf8.FullRuneInString(in) {
		return 0
	}
	r, n := utf8.DecodeRuneInString(in)
	s.midWord = !unicode.IsSpace(r)
	s.started = s.started || s.midWord
	s.code.step(r)
	out.add(in[:n], false)
	return n
}

// matchTag gives the tag that text begins with, in lower case, or tells that
// more text could make it begin with one.
func matchTag(text string, tags []string) (tag string, more bool) {
	for _, t := range tags {
		n := min(len(t), len(text))
		if !strings.EqualFold(text[:n], t[:n]) {
			continue
		}
		if n == len(t) && isASCII(text[:n]) {
			return t, false
		}
		more = more || n < len(t)
	}
	return "", more
}

// isASCII guards against letters that fold to ASCII ones, such as the Kelvin
// sign for k.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// wholeRunes is the length of text without an unfinished last character.
func wholeRunes(text string, end bool) int {
	if end {
		return len(text)
	}
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// pieces joins neighbours of the same kind.
type pieces struct {
	list     []Piece
	text     strings.Builder
	thinking bool
}

func (p *pieces) add(text string, thinking bool) {
	if p.text.Len() > 0 && p.thinking != thinking {
		p.list = append(p.list, Piece{p.text.String(), p.thinking})
		p.text.Reset()
	}
	p.thinking = thinking
	p.text.WriteString(text)
}

func (p *pieces) done() []Piece {
	if p.text.Len() > 0 {
		p.list = append(p.list, Piece{p.text.String(), p.thinking})
	}
	return p.list
}
