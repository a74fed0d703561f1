package chunk

import (
	"strings"
	"unicode/utf8"
)

// atom is a part of a text that goes into a piece as a whole.
type atom struct {
	from, to int
	cost     int
	kind     kind
	level    int   // of a heading
	sticky   bool  // belongs to what follows: a heading, the header of a table
	wrap     *wrap // of parts of a table or of code that was cut
	first    bool  // of its wrap: needs no opening
	last     bool  // of its wrap: needs no closing
}

// wrap is what a part of a table or of fenced code needs around it to be one.
type wrap struct {
	open, close string
	cost        int // of open
	end         int // of close
}

// span is a piece before it is measured.
type span struct {
	from, to    int
	open, close string
	path        []string
	heading     bool // it begins with one
}

// packer fills pieces with atoms.
type packer struct {
	text          string
	count         func(string) int
	size, overlap int
	separators    []string

	atoms   []atom
	cost    int
	carried int  // atoms at the front that are repeated from the piece before
	going   bool // the piece goes on with what the one before began
	path    []string
	levels  []int
	common  []string // headings above all that the piece holds
	content bool     // the piece holds something that is no heading
	spans   []span
	work    int
}

// place puts a block into pieces, as a whole where it fits.
func (p *packer) place(b block) {
	whole := atom{from: b.from, to: b.to, kind: b.kind, level: b.level, sticky: b.kind == heading}
	cost := p.size + 1
	if b.to-b.from <= 16*p.size {
		cost = p.measure(b.from, b.to)
	}
	whole.cost = cost
	room := p.size - p.cost
	switch {
	case cost <= room, cost <= p.size && (p.cost >= p.size/2 || b.kind == table || b.kind == fence):
		p.add(whole)
	case b.kind == table:
		p.table(b)
	case b.kind == fence:
		p.fence(b)
	default:
		if b.kind == heading {
			p.enter(b)
		}
		p.cut(b.from, b.to, 0, p.size, nil)
	}
}

func (p *packer) measure(from, to int) int { return p.count(p.text[from:to]) }

// cut takes a part of a text that may be too large apart, at ends of sentences, then
// of lines, then anywhere.
func (p *packer) cut(from, to, level, size int, w *wrap) {
	kind := paragraph
	each := func(from, to int) {
		if to-from <= 16*size {
			if cost := p.measure(from, to); cost <= size {
				p.add(atom{from: from, to: to, cost: cost, kind: kind, wrap: w})
				return
			}
		}
		p.cut(from, to, level+1, size, w)
	}
	p.work += to - from
	levels := max(1, len(p.separators)) // of sentences
	switch {
	case level < len(p.separators):
		separated(p.text, from, to, p.separators[level], each)
	case level < levels:
		sentences(p.text, from, to, each)
	case level == levels:
		separated(p.text, from, to, "\n", each)
	default:
		units(p.text, from, to, max(size/8, 8), func(from, to int) {
			p.add(atom{from: from, to: to, cost: p.measure(from, to), kind: kind, wrap: w})
		})
	}
}

// table places a table that is larger than a piece: between rows, with the header
// in each piece.
func (p *packer) table(b block) {
	w := &wrap{open: p.text[b.from:b.head], cost: p.size}
	if b.head-b.from <= 16*p.size {
		w.cost = p.measure(b.from, b.head)
	}
	if p.cost > p.size/4 {
		p.flush(false)
	}
	if w.cost > p.size/2 {
		p.cut(b.from, b.head, 0, p.size, nil)
		w = nil
	} else {
		p.add(atom{from: b.from, to: b.head, cost: w.cost, kind: table, sticky: true, wrap: w, first: true})
	}
	p.rows(b.head, b.to, w)
}

func (p *packer) rows(from, to int, w *wrap) {
	size := p.size
	if w != nil {
		size -= w.cost
	}
	separated(p.text, from, to, "\n", func(from, to int) {
		if to-from <= 16*size {
			if cost := p.measure(from, to); cost <= size {
				p.add(atom{from: from, to: to, cost: cost, kind: table, wrap: w})
				return
			}
		}
		p.cut(from, to, max(1, len(p.separators))+1, size, w)
	})
}

// fence places code that is larger than a piece: between lines, each part with
// fences of its own.
func (p *packer) fence(b block) {
	open := strings.TrimRight(p.text[b.from:b.head], "\r\n")
	mark := fenceMark(open)
	w := &wrap{open: open + "\n", close: mark}
	if len(open) > 256 {
		w.open = mark + "\n"
	}
	w.cost, w.end = p.count(w.open), p.count("\n"+mark)
	if w.cost+w.end > p.size/2 {
		p.cut(b.from, b.to, 1, p.size, nil)
		return
	}
	if p.cost > p.size/4 {
		p.flush(false)
	}
	if len(open) > 256 {
		p.cut(b.from, b.head, 1, p.size, nil)
	} else {
		p.add(atom{from: b.from, to: b.head, cost: p.measure(b.from, b.head), kind: fence, sticky: true, wrap: w, first: true})
	}
	p.code(b.head, b.close, w)
	if b.close < b.to {
		from, to := b.close, b.close+len(strings.TrimRight(p.text[b.close:b.to], " \t\r\n"))
		p.add(atom{from: from, to: to, cost: p.measure(from, to), kind: fence, wrap: w, last: true})
	}
}

// code places lines, several short ones at a time.
func (p *packer) code(from, to int, w *wrap) {
	size, small := p.size-w.cost-w.end, p.size/8
	start := from
	put := func(from, to int) {
		if from == to {
			return
		}
		if to-from <= 16*size {
			if cost := p.measure(from, to); cost <= size {
				p.add(atom{from: from, to: to, cost: cost, kind: fence, wrap: w})
				return
			}
		}
		p.cut(from, to, max(1, len(p.separators))+1, size, w)
	}
	separated(p.text, from, to, "\n", func(from, to int) {
		if to-start > small && from > start {
			put(start, from)
			start = from
		}
	})
	put(start, to)
}

// add puts an atom into the piece, or into the next one if it does not fit.
func (p *packer) add(a atom) {
	if blank(p.text[a.from:a.to]) && (len(p.atoms) == 0 || a.cost > p.size-p.cost) {
		return
	}
	if len(p.atoms) > 0 {
		// Blank lines are cheap, but there may be any number of them.
		if gap := a.from - p.atoms[len(p.atoms)-1].to; gap > 64 {
			p.end(p.atoms, nil)
		} else {
			p.cost += gap / 2
		}
	}
	if a.kind == heading && p.content && (p.cost >= p.size/4 || p.going) {
		p.flush(false)
	}
	if p.need(a) > p.size && len(p.atoms) > p.carried {
		p.flush(a.kind != table && a.kind != fence)
	}
	if p.need(a) > p.size && p.carried > 0 && len(p.atoms) == p.carried {
		p.empty()
	}
	if p.need(a) > p.size && len(p.atoms) > 0 {
		p.end(p.atoms, nil) // headings that leave no room
	}
	p.cost = p.need(a)
	if a.kind == heading {
		p.enter(block{from: a.from, to: a.to, level: a.level})
	} else {
		p.hold()
	}
	p.atoms = append(p.atoms, a)
}

// need is what the piece costs with the atom.
func (p *packer) need(a atom) int {
	need := p.cost + a.cost
	if w := a.wrap; w != nil {
		if len(p.atoms) == 0 && !a.first {
			need += w.cost
		}
		if len(p.atoms) == 0 || a.first {
			need += w.end
		}
	}
	return need
}

func (p *packer) empty() { p.atoms, p.cost, p.carried = p.atoms[:0], 0, 0 }

// enter makes a heading the one that what follows stands under.
func (p *packer) enter(b block) {
	n := len(p.levels)
	for n > 0 && p.levels[n-1] >= b.level {
		n--
	}
	p.levels = append(p.levels[:n], b.level)
	p.path = append(append([]string(nil), p.path[:n]...), title(p.text[b.from:b.to]))
}

// hold notes that something stands under the path.
func (p *packer) hold() {
	if !p.content {
		p.content, p.common = true, p.path
		return
	}
	p.common = shared(p.common, p.path)
}

// shared is what two paths begin with.
func shared(a, b []string) []string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// flush ends the piece. What belongs to what follows goes into the next one;
// with repeat, so does the end of its last paragraph.
func (p *packer) flush(repeat bool) {
	keep := len(p.atoms)
	for keep > p.carried && p.atoms[keep-1].sticky {
		keep--
	}
	if keep == 0 {
		p.end(p.atoms, nil)
		return
	}
	moved := append([]atom(nil), p.atoms[keep:]...)
	var again []atom
	if repeat && len(moved) == 0 && keep > p.carried {
		again = p.tail(p.atoms[p.carried:keep])
	}
	p.end(p.atoms[:keep], again)
	for _, a := range moved {
		p.cost = p.need(a)
		p.atoms = append(p.atoms, a)
		p.going = false
	}
}

// end makes a piece of the atoms, unless all of them are repeated, and begins the
// next with those that are to be.
func (p *packer) end(atoms, again []atom) {
	if len(atoms) > p.carried {
		p.span(atoms)
		p.going = true
	}
	p.empty()
	p.content, p.common = false, nil
	for _, a := range again {
		p.atoms = append(p.atoms, a)
		p.cost += a.cost
		p.hold()
	}
	p.carried = len(again)
}

// tail is the end of the atoms that the next piece repeats: whole sentences, at
// most overlap tokens, of one section.
func (p *packer) tail(atoms []atom) []atom {
	var again []atom // backwards
	left := p.overlap
	for i := len(atoms) - 1; i >= 0 && left > 0; i-- {
		a := atoms[i]
		if a.kind != paragraph && a.kind != list || a.wrap != nil {
			break
		}
		if a.cost <= left {
			again = append(again, a)
			left -= a.cost
			continue
		}
		var parts [][2]int
		sentences(p.text, a.from, a.to, func(from, to int) { parts = append(parts, [2]int{from, to}) })
		for k := len(parts) - 1; k > 0; k-- {
			cost := p.size
			if parts[k][1]-parts[k][0] <= 16*left {
				cost = p.measure(parts[k][0], parts[k][1])
			}
			if cost > left {
				break
			}
			again = append(again, atom{from: parts[k][0], to: parts[k][1], cost: cost, kind: a.kind})
			left -= cost
		}
		break
	}
	if len(again) == len(atoms) {
		again = again[:len(again)-1] // a piece must not repeat the whole of another
	}
	for i, j := 0, len(again)-1; i < j; i, j = i+1, j-1 {
		again[i], again[j] = again[j], again[i]
	}
	return again
}

func (p *packer) span(atoms []atom) {
	head, tail := atoms[0], atoms[len(atoms)-1]
	s := span{from: head.from, to: tail.to, path: p.common, heading: head.kind == heading}
	if !p.content {
		s.path = p.path
	}
	if head.wrap != nil && !head.first {
		s.open = head.wrap.open
	}
	if tail.wrap != nil && !tail.last {
		s.close = tail.wrap.close
	}
	// Leading blank lines go, the indentation of the first line stays.
	body := p.text[s.from:s.to]
	for len(body) > 0 {
		line := body
		if i := strings.IndexByte(body, '\n'); i >= 0 {
			line = body[:i+1]
		}
		if !blank(line) {
			break
		}
		body = body[len(line):]
	}
	s.from = s.to - len(body)
	body = strings.TrimRightFunc(strings.TrimPrefix(body, "\ufeff"), isBlank)
	if body == "" {
		return
	}
	if strings.HasPrefix(p.text[s.from:], "\ufeff") {
		s.from += len("\ufeff")
	}
	s.to = s.from + len(body)
	p.spans = append(p.spans, s)
}

// content is the text of a span.
func (p *packer) contentOf(s span) string {
	body := p.text[s.from:s.to]
	if s.open == "" && s.close == "" {
		return body
	}
	if s.close != "" {
		return s.open + body + "\n" + s.close
	}
	return s.open + body
}

// runes counts the runes up to a place in the text, fast for places near the
// last one.
type runes struct {
	text   string
	at, no int
}

func (r *runes) upTo(at int) int {
	if at >= r.at {
		r.no += utf8.RuneCountInString(r.text[r.at:at])
	} else {
		r.no -= utf8.RuneCountInString(r.text[at:r.at])
	}
	r.at = at
	return r.no
}

var markup = strings.NewReplacer("**", "", "__", "", "`", "")

// title is the text of a heading without its markup.
func title(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimFunc(s, isBlank)
	if headingLevel(s) > 0 {
		s = strings.TrimLeft(s, "#")
		if t := strings.TrimRight(s, "#"); strings.HasSuffix(t, " ") {
			s = t
		}
	}
	s = strings.Join(strings.Fields(markup.Replace(s)), " ")
	at := 0
	for n := 0; at < len(s); n++ {
		if n == MaxContext {
			return s[:at] + "…"
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s
}
