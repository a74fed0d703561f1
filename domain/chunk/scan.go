package chunk

import (
	"strings"
	"unicode"
)

type kind int

const (
	paragraph kind = iota
	heading
	list
	table
	fence
	rule
)

// block is a part of a text, from its first line to the end of its last one,
// with the line break.
type block struct {
	kind     kind
	from, to int
	level    int // of a heading, 1 to 6
	head     int // where the header of a table or the opening line of a fence ends
	close    int // where the closing mark of a fence begins; to if it has none
}

// scanner finds the blocks of a text, line by line. It looks at each line a
// constant number of times.
type scanner struct {
	text string
	tier string
	pos  int
	work int
}

// maxHeading is the longest line, in bytes, that counts as a heading.
const maxHeading = 512

// maxFence is the longest line, in bytes, that closes code.
const maxFence = 128

// line is the line at pos with its line break; next is where the one after begins.
func (s *scanner) line(pos int) (line string, next int) {
	rest := s.text[pos:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i+1]
	}
	s.work += len(rest)
	return rest, pos + len(rest)
}

func (s *scanner) next() (block, bool) {
	for s.pos < len(s.text) {
		line, next := s.line(s.pos)
		if blank(line) {
			s.pos = next
			continue
		}
		b := s.block(line, next)
		s.pos = b.to
		return b, true
	}
	return block{}, false
}

func (s *scanner) block(line string, next int) block {
	b := block{from: s.pos, to: next}
	if s.tier == Recursive {
		return s.lines(b)
	}
	if s.pos == 0 && strings.TrimSpace(line) == "---" {
		if end := s.frontMatter(next); end > 0 {
			b.to = end
			return b
		}
	}
	if mark := fenceMark(line); mark != "" {
		b.kind, b.head = fence, next
		return s.fenced(b, mark)
	}
	if level := headingLevel(line); level > 0 {
		return s.heading(b, level)
	}
	if isRule(line) {
		b.kind = rule
		return b
	}
	if s.tableAt(line, next) {
		return s.table(b)
	}
	if isItem(line) {
		b.kind = list
	} else if second, after := s.peek(next); second != "" && len(line) <= maxHeading {
		if level := underline(second); level > 0 {
			b.to = after
			return s.heading(b, level)
		}
	}
	return s.lines(b)
}

func (s *scanner) heading(b block, level int) block {
	if s.tier == Heading {
		b.kind, b.level = heading, level
	}
	return b
}

func (s *scanner) peek(pos int) (string, int) {
	if pos >= len(s.text) {
		return "", pos
	}
	return s.line(pos)
}

// lines adds what belongs to the paragraph or list item that b begins with.
func (s *scanner) lines(b block) block {
	for b.to < len(s.text) {
		line, next := s.line(b.to)
		if blank(line) {
			break
		}
		if s.tier != Recursive && (fenceMark(line) != "" || headingLevel(line) > 0 || isItem(line) || isRule(line) || s.tableAt(line, next)) {
			break
		}
		b.to = next
	}
	return b
}

func (s *scanner) tableAt(line string, next int) bool {
	if !strings.Contains(line, "|") {
		return false
	}
	second, _ := s.peek(next)
	return isDelimiter(second)
}

func (s *scanner) table(b block) block {
	_, b.head = s.line(b.to)
	b.kind, b.to = table, b.head
	for b.to < len(s.text) {
		line, next := s.line(b.to)
		if blank(line) || !strings.Contains(line, "|") {
			break
		}
		b.to = next
	}
	return b
}

func (s *scanner) fenced(b block, mark string) block {
	for b.to < len(s.text) {
		line, next := s.line(b.to)
		at := b.to
		b.to = next
		if t := strings.TrimSpace(line); len(line) <= maxFence && len(t) >= len(mark) && t[0] == mark[0] && strings.Trim(t, mark[:1]) == "" {
			b.close = at + strings.Index(line, t)
			return b
		}
	}
	b.close = b.to
	return b
}

// frontMatter is where the YAML before a document ends, 0 if there is none.
func (s *scanner) frontMatter(pos int) int {
	for range 200 {
		if pos >= len(s.text) {
			return 0
		}
		line, next := s.line(pos)
		if t := strings.TrimSpace(line); t == "---" || t == "..." {
			return next
		}
		pos = next
	}
	return 0
}

func blank(s string) bool {
	for _, r := range s {
		if !isBlank(r) {
			return false
		}
	}
	return true
}

// isBlank tells what need not be in any piece: white space and byte order marks.
func isBlank(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }

func indent(line string) (string, int) {
	t := strings.TrimLeft(strings.TrimPrefix(line, "\ufeff"), " \t")
	return t, len(line) - len(t)
}

// fenceMark is the fence that opens code with the line, such as ```. An indented
// one counts too: it may lie in a list.
func fenceMark(line string) string {
	t, n := indent(line)
	if n > 16 || len(t) < 3 || t[0] != '`' && t[0] != '~' {
		return ""
	}
	mark := t[:len(t)-len(strings.TrimLeft(t, t[:1]))]
	if len(mark) < 3 || len(mark) > 64 || mark[0] == '`' && strings.Contains(t[len(mark):], "`") {
		return ""
	}
	return mark
}

func headingLevel(line string) int {
	t, n := indent(line)
	if n > 6 || len(line) > maxHeading || t == "" || t[0] != '#' {
		return 0
	}
	rest := strings.TrimLeft(t, "#")
	level := len(t) - len(rest)
	if level > 6 || rest != "" && rest[0] != ' ' && rest[0] != '\t' && rest[0] != '\n' && rest[0] != '\r' {
		return 0
	}
	if strings.Trim(rest, "# \t\r\n") == "" {
		return 0
	}
	return level
}

// underline is the level of the heading that the line underlines, or 0.
func underline(line string) int {
	t := strings.TrimSpace(line)
	switch {
	case len(t) < 2 || len(t) > maxHeading:
		return 0
	case strings.Trim(t, "=") == "":
		return 1
	case strings.Trim(t, "-") == "":
		return 2
	}
	return 0
}

func isRule(line string) bool {
	t := strings.TrimSpace(line)
	if len(t) < 3 || len(t) > maxHeading || !strings.Contains("-*_", t[:1]) {
		return false
	}
	return strings.Trim(t, t[:1]+" ") == "" && strings.Count(t, t[:1]) >= 3
}

func isItem(line string) bool {
	t, _ := indent(line)
	if len(t) < 2 {
		return false
	}
	if strings.Contains("-*+", t[:1]) {
		return t[1] == ' ' || t[1] == '\t'
	}
	digits := 0
	for digits < len(t) && digits < 10 && t[digits] >= '0' && t[digits] <= '9' {
		digits++
	}
	return digits > 0 && digits < 10 && len(t) > digits+1 && (t[digits] == '.' || t[digits] == ')') && (t[digits+1] == ' ' || t[digits+1] == '\t')
}

// isDelimiter tells whether the line is the second one of a table: |---|:--:|
func isDelimiter(line string) bool {
	dash, bar := false, false
	for i := range len(line) {
		switch line[i] {
		case '-':
			dash = true
		case '|':
			bar = true
		case ':', ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return dash && bar
}
