package extractive

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// evidence is what tools have said, as far as it could be parsed. All of it is
// data: text in it is compared and quoted, never followed.
type evidence struct {
	files []string // paths listed
	hits  []line   // lines that a search found
	pages []page
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
	listLine = regexp.MustCompile(`^([^\t]+)\t(\d+)$`)
	grepLine = regexp.MustCompile(`^(.+?):(\d+): (.*)$`)
	readHead = regexp.MustCompile(`^(.+) \(lines \d+-\d+ of \d+\+?\)$`)
	readLine = regexp.MustCompile(`^ *(\d+)\| ?(.*)$`)
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

// weights rates each term by how few of the texts have it.
func weights(terms []term, texts []string) []float64 {
	count := make([]int, len(terms))
	for _, text := range texts {
		for i, hit := range found(terms, text) {
			if hit {
				count[i]++
			}
		}
	}
	list := make([]float64, len(terms))
	for i, n := range count {
		list[i] = math.Log(1 + float64(len(texts)+1)/float64(n+1))
	}
	return list
}

func score(terms []term, weight []float64, text string) float64 {
	sum := 0.0
	for i, hit := range found(terms, text) {
		if hit {
			sum += weight[i]
		}
	}
	return sum
}

// best gives the places of at most n files to read: those whose hits cover the
// question best, each at its best hit.
func (e *evidence) best(terms []term, n int) []place {
	var texts []string
	for _, h := range e.hits {
		texts = append(texts, h.text)
	}
	weight := weights(terms, texts)
	type rated struct {
		place
		top, all float64
		texts    strings.Builder
	}
	var list []*rated
	files := map[string]*rated{}
	for _, h := range e.hits {
		r := files[h.path]
		if r == nil {
			r = &rated{place: place{h.path, h.n}}
			files[h.path] = r
			list = append(list, r)
		}
		if s := score(terms, weight, h.text); s > r.top {
			r.top, r.line = s, h.n
		}
		r.texts.WriteString(h.text + "\n")
	}
	for _, r := range list {
		r.all = 2*r.top + score(terms, weight, r.texts.String())
	}
	slices.SortStableFunc(list, func(a, b *rated) int {
		switch {
		case a.all > b.all:
			return -1
		case a.all < b.all:
			return 1
		}
		return strings.Compare(a.path, b.path)
	})
	var places []place
	for _, r := range list {
		if len(places) < n && (len(places) == 0 || r.all >= list[0].all/3) {
			places = append(places, r.place)
		}
	}
	return places
}
