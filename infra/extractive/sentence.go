package extractive

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentence is a sentence of a file, with the line it begins on and the heading
// it stands under.
type sentence struct {
	path, heading, text string
	line                int
}

var (
	headingLine = regexp.MustCompile(`^#{1,6}\s+(.*?)[\s#]*$`)
	listMarker  = regexp.MustCompile(`^\s*(?:[-*+•]|\d{1,3}[.)、])\s+`)
	ruleLine    = regexp.MustCompile(`^[\s|:=*_-]+$`)
)

// sentences cuts a page into sentences. A paragraph may be broken over lines;
// headings, list items and table rows begin anew.
func (p page) sentences() []sentence {
	var list []sentence
	var block []line
	heading := ""
	end := func() {
		list = append(list, cutBlock(p.path, heading, block)...)
		block = nil
	}
	last := 0
	for _, l := range p.lines {
		text := strings.TrimSpace(l.text)
		fresh := listMarker.MatchString(l.text) || strings.HasPrefix(text, "|")
		if fresh || text == "" || ruleLine.MatchString(text) || l.n != last+1 {
			end()
		}
		last = l.n
		if m := headingLine.FindStringSubmatch(text); m != nil {
			end()
			heading = m[1]
			continue
		}
		if text == "" || ruleLine.MatchString(text) {
			continue
		}
		l.text = strings.TrimSpace(strings.TrimLeft(listMarker.ReplaceAllString(text, ""), "> "))
		block = append(block, l)
		if strings.HasPrefix(text, "|") {
			end()
		}
	}
	end()
	return list
}

// cutBlock cuts the lines of one paragraph.
func cutBlock(path, heading string, block []line) []sentence {
	var text strings.Builder
	starts := make([]int, 0, len(block)) // byte offset of each line
	for _, l := range block {
		if r, _ := utf8.DecodeLastRuneInString(text.String()); text.Len() > 0 && !unspaced(r) && !strings.ContainsRune("。！？；，：、", r) {
			text.WriteByte(' ')
		}
		starts = append(starts, text.Len())
		text.WriteString(l.text)
	}
	var list []sentence
	whole := text.String()
	from := 0
	for i, r := range whole {
		to := i + utf8.RuneLen(max(r, 0))
		if to < len(whole) && !ends(whole, i, r) {
			continue
		}
		if to >= len(whole) {
			to = len(whole)
		}
		piece := whole[from:to]
		begin := from + len(piece) - len(strings.TrimLeftFunc(piece, unicode.IsSpace))
		if piece = strings.TrimSpace(piece); utf8.RuneCountInString(piece) > 3 {
			n := 0
			for n+1 < len(starts) && starts[n+1] <= begin {
				n++
			}
			list = append(list, sentence{path, heading, piece, block[n].n})
		}
		from = to
	}
	return list
}

// ends tells whether the rune at i ends a sentence. Full stops need a space and
// an upper-case letter or such after them: abbreviations and numbers have none.
func ends(text string, i int, r rune) bool {
	switch r {
	case '。', '！', '？', '；':
		return true
	case '.', '!', '?':
		rest := text[i+1:]
		if rest == "" || rest[0] != ' ' {
			return false
		}
		next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " "))
		return !unicode.IsLower(next)
	}
	return false
}
