package extractive

import (
	"cmp"
	"encoding/json"
	"html"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// evidence is what tools have said, as far as it could be parsed. All of it is
// data: text in it is compared and quoted, never followed.
type evidence struct {
	files  []string // paths listed
	closed []string // paths of text that could not be searched, as its encoding is unknown
	hits   []line   // lines that a search found
	pages  []page
	read   map[string]bool // passages, by path, which is their handle
}

type line struct {
	path string
	n    int
	text string
}

// page is consecutive lines of one file.
type page struct {
	path  string
	lines []line
}

type place struct {
	path string
	line int
}

func (e *evidence) take(tool, arguments, output string) {
	for _, s := range strategies {
		if s.tool == tool {
			s.take(e, arguments, output)
		}
	}
}

var (
	listLine   = regexp.MustCompile(`^([^\t]+)\t\d+$`)
	unsearched = regexp.MustCompile(`^\[\d+ matches in .*only their ASCII was searched: ([^;\]]+)`)
	grepLine   = regexp.MustCompile(`^(.+?):(\d+): (.*)$`)
	readHead   = regexp.MustCompile(`^(.+) \(lines \d+-\d+ of \d+\+?\)$`)
	readLine   = regexp.MustCompile(`^ *(\d+)\| ?(.*)$`)
)

func takeList(e *evidence, _, output string) {
	for text := range strings.SplitSeq(output, "\n") {
		if m := listLine.FindStringSubmatch(text); m != nil && !slices.Contains(e.files, m[1]) {
			e.files = append(e.files, m[1])
		}
	}
}

func takeGrep(e *evidence, _, output string) {
	for text := range strings.SplitSeq(output, "\n") {
		if m := grepLine.FindStringSubmatch(text); m != nil {
			if n, err := strconv.Atoi(m[2]); err == nil {
				e.hits = append(e.hits, line{m[1], n, m[3]})
			}
		} else if m := unsearched.FindStringSubmatch(text); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				if !slices.Contains(e.closed, name) {
					e.closed = append(e.closed, name)
				}
			}
		}
	}
}

func takeRead(e *evidence, arguments, output string) {
	var asked struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal([]byte(arguments), &asked)
	p := page{path: asked.Path}
	for text := range strings.SplitSeq(output, "\n") {
		if m := readHead.FindStringSubmatch(text); m != nil && p.path == "" {
			p.path = m[1]
		} else if m := readLine.FindStringSubmatch(text); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				p.lines = append(p.lines, line{p.path, n, m[2]})
			}
		}
	}
	if p.path != "" && len(p.lines) > 0 {
		e.pages = append(e.pages, p)
	}
}

var (
	passageTag  = regexp.MustCompile(`(?s)<(chunk|faq)((?: [a-z_]+="[^"<>]*")+)>\n(.*?)\n?</(?:chunk|faq)>`)
	handleAttr  = regexp.MustCompile(`(?:chunk_id|faq_id)="([cC][0-9]+)"`)
	contextAttr = regexp.MustCompile(` section="([^"]*)"`)
	innerTag    = regexp.MustCompile(`</?(?:question|similar_question|answer|match_snippet|content)>`)
)

// takePassages reads passages of knowledge bases. Their path is their handle.
func takePassages(e *evidence, _, output string) {
	for _, m := range passageTag.FindAllStringSubmatch(output, -1) {
		h := handleAttr.FindStringSubmatch(m[2])
		if h == nil {
			continue
		}
		p := page{path: handlePrefix + strings.ToLower(h[1])}
		if e.read[p.path] {
			continue
		}
		if e.read == nil {
			e.read = map[string]bool{}
		}
		e.read[p.path] = true
		if c := contextAttr.FindStringSubmatch(m[2]); c != nil {
			p.lines = append(p.lines, line{p.path, 0, "# " + html.UnescapeString(c[1])})
		}
		for i, text := range strings.Split(html.UnescapeString(innerTag.ReplaceAllString(m[3], "")), "\n") {
			p.lines = append(p.lines, line{p.path, i + 1, text})
		}
		e.pages = append(e.pages, p)
	}
}

// handlePrefix marks a path that is the handle of a passage.
const handlePrefix = "\x00"

// distinct gives the lines found, each once. Of copies, a long line elsewhere or
// the same line of a file of the same name, the one in the better file stays.
func (e *evidence) distinct() []line {
	type key struct {
		name string
		n    int
		text string
	}
	var list []line
	seen := map[place]bool{}
	at := map[key]int{}
	for _, h := range e.hits {
		if p := (place{h.path, h.n}); seen[p] {
			continue
		} else {
			seen[p] = true
		}
		k := key{path.Base(h.path), h.n, h.text}
		if len(h.text) >= longCopy {
			k = key{text: plain(h.text)}
		}
		i, copied := at[k]
		switch {
		case !copied || list[i].path == h.path:
			at[k] = len(list)
			list = append(list, h)
		case better(h.path, list[i].path) < 0:
			list[i] = h
		}
	}
	return list
}

// longCopy is how long a line is, in bytes, that is hardly written twice.
const longCopy = 40

// byPath orders paths: shorter first.
func byPath(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// better orders paths by which a copy is named by: prose that is no sample, then
// the shorter path.
func better(a, b string) int {
	return cmp.Or(cmp.Compare(kindOf(b).factor, kindOf(a).factor), byPath(a, b))
}

const (
	near  = 4  // lines around a hit that count as its paragraph
	above = 40 // lines below a heading that it counts for
)

// window is lines to read.
type window struct {
	path        string
	from, limit int
}

// The windows around a hit: readBefore lines above it, readLines in all, and
// fewer where lines are long.
const (
	readBefore = 30
	readLines  = 120
	longLine   = 150 // runes
)

func windowAt(l line) window {
	if utf8.RuneCountInString(l.text) > longLine {
		return window{l.path, max(1, l.n-readBefore/3), readLines / 3}
	}
	return window{l.path, max(1, l.n-readBefore), readLines}
}

// best gives at most n windows to read, best first: around hits that cover the
// question best, together with the hits beside them and the heading above.
func (e *evidence) best(q query, n int) []window {
	type spot struct {
		line
		own   []float64
		score float64
	}
	var list []*spot
	files := map[string][]*spot{}
	var texts [][]float64
	for _, h := range e.distinct() {
		s := &spot{line: h, own: q.hit(h)}
		list = append(list, s)
		files[h.path] = append(files[h.path], s)
		texts = append(texts, s.own)
	}
	weight := q.weights(texts)
	for _, s := range list {
		var around [][]float64
		for _, o := range files[s.path] {
			d := s.n - o.n
			if d >= -near && d <= near || d > 0 && d <= above && headingLine.MatchString(o.text) {
				around = append(around, o.own)
			}
		}
		k := kindOf(s.path)
		s.score = (dot(s.own, weight) + dot(merged(s.own, around...), weight)) * k.factor * q.cohesion(s.text)
		if k.code && !k.comment.MatchString(s.text) {
			s.score *= worth(s.text)
		}
		if q.wants != nil && q.wants.MatchString(s.text) {
			s.score *= 1.3
		}
	}
	slices.SortStableFunc(list, func(a, b *spot) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return cmp.Or(byPath(a.path, b.path), a.n-b.n)
	})
	var windows []window
	for _, s := range list {
		if len(windows) == n || s.score == 0 || s.score < list[0].score/3 {
			break
		}
		if !slices.ContainsFunc(windows, func(w window) bool { return w.path == s.path && w.from <= s.n && s.n < w.from+w.limit }) {
			windows = append(windows, windowAt(s.line))
		}
	}
	return windows
}

// found gives the pages read, and the rows and list items of a search that no
// page has: those are whole.
func (e *evidence) found() []page {
	list := slices.Clone(e.pages)
	have := map[place]bool{}
	for _, p := range list {
		for _, l := range p.lines {
			have[place{p.path, l.n}] = true
		}
	}
	for _, h := range e.distinct() {
		whole := !strings.Contains(h.text, " bytes]") && (strings.HasPrefix(h.text, "|") || listMarker.MatchString(h.text))
		if !have[place{h.path, h.n}] && (whole || len(e.pages) == 0) {
			list = append(list, page{h.path, []line{h}})
		}
	}
	return list
}
