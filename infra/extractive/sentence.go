package extractive

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentence is a sentence of a file, with the line it begins on and the headings
// it stands under.
type sentence struct {
	path, text string
	heading    string // all that it stands under, outermost first, and the head of its table
	last       string // the innermost
	line, end  int    // lines of it
	block      int    // number of its paragraph on the page
	nth        int    // place below its heading, from 0
	code       bool
	row        bool // of a table
}

var (
	headingLine = regexp.MustCompile(`^(#{1,6})\s+(.*?)[\s#]*$`)
	listMarker  = regexp.MustCompile(`^\s*(?:[-*+•]|\d{1,3}[.)、])\s+`)
	ruleLine    = regexp.MustCompile(`^[\s|:=*_-]+$`)
	fence       = regexp.MustCompile("^(?:```|~~~)")
	inset       = regexp.MustCompile(`^(?:\t| {2})`)
	indented    = regexp.MustCompile(`^(?:\t| {4})`)
)

// sentences cuts a page into sentences. A paragraph may be broken over lines;
// headings, list items, table rows and lines of code begin anew.
func (p page) sentences(k kind) []sentence {
	var list []sentence
	var block []line
	var headings []string
	columns := "" // the head of the table that the rows stand in
	blocks, nth := 0, 0
	fenced, listed, blank := false, false, true
	end := func(code bool) {
		if len(block) > 0 {
			blocks++
		}
		row := len(block) == 1 && strings.HasPrefix(block[0].text, "|")
		for _, s := range cutBlock(block, code) {
			s.path, s.block, s.nth, s.code, s.row = p.path, blocks, nth, code, row
			if s.heading = strings.Join(headings, "\n"); row {
				s.heading += "\n" + columns
			}
			if len(headings) > 0 {
				s.last = headings[len(headings)-1]
			}
			list = append(list, s)
			nth++
		}
		block = nil
	}
	last := 0
	for _, l := range p.lines {
		text := strings.TrimSpace(l.text)
		if l.n != last+1 {
			end(false)
			blank = true
		}
		last = l.n
		if k.code {
			if bare := k.comment.ReplaceAllString(l.text, ""); text != "" && bare != l.text && strings.TrimSpace(bare) != "" {
				l.text = strings.TrimSpace(bare)
				if inset.MatchString(bare) { // a table or an example
					end(false)
					block = []line{l}
					end(false)
					continue
				}
				block = append(block, l)
				continue
			}
			end(false)
			if block = nil; text != "" {
				l.text = text
				block = []line{l}
				end(true)
			}
			continue
		}
		switch m := headingLine.FindStringSubmatch(text); {
		case fence.MatchString(text):
			end(false)
			fenced = !fenced
		case text == "" || ruleLine.MatchString(text) && !fenced:
			end(false)
			if n := len(list); strings.HasPrefix(text, "|") && n > 0 && list[n-1].row && list[n-1].end == l.n-1 {
				columns = list[n-1].text
				list = slices.DeleteFunc(list, func(s sentence) bool { return s.line == l.n-1 })
			} else {
				columns = ""
			}
		case fenced || blank && !listed && indented.MatchString(l.text):
			end(false)
			l.text = text
			block = []line{l}
			end(true)
			continue // what follows is code as long as it is indented
		case m != nil:
			end(false)
			// Levels that are left out count as empty.
			for len(headings) < len(m[1])-1 {
				headings = append(headings, "")
			}
			headings = append(headings[:len(m[1])-1:len(m[1])-1], m[2])
			nth, listed = 0, false
		default:
			item := listMarker.MatchString(l.text)
			row := strings.HasPrefix(text, "|")
			if item || row {
				end(false)
			}
			listed = item || listed && l.text != text
			l.text = strings.TrimSpace(strings.TrimLeft(listMarker.ReplaceAllString(text, ""), "> "))
			block = append(block, l)
			if row {
				end(false)
			}
		}
		blank = text == ""
	}
	end(false)
	return list
}

// cutBlock cuts the lines of one paragraph. A line of code is one piece.
func cutBlock(block []line, code bool) []sentence {
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
		if to < len(whole) && (code || !ends(whole, i, r)) {
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
			e := n
			for e+1 < len(starts) && starts[e+1] < to {
				e++
			}
			list = append(list, sentence{text: piece, line: block[n].n, end: block[e].n})
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
