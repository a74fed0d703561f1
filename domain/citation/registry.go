package citation

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind of a source: the letter of its handles.
type Kind byte

// The kinds of sources.
const (
	Chunk    Kind = 'c'
	Document Kind = 'd'
	Base     Kind = 'b'
	Page     Kind = 'w' // on the web
)

// Source is what a handle stands for.
type Source struct {
	Kind     Kind
	ID       string // chunk, document, base, or the page's URL
	Document string // of a chunk
	Base     string // of a chunk or a document
	Title    string
}

// Registry knows the sources of one request. The zero value is empty and ready.
// Not safe for concurrent use.
type Registry struct {
	sources   map[string]Source // by handle
	handles   map[key]string
	counts    map[Kind]int
	resources []string // res://0001 is the first
	replacer  *strings.Replacer
}

type key struct {
	kind Kind
	id   string
}

// Empty tells whether nothing was registered.
func (r *Registry) Empty() bool { return len(r.sources) == 0 && len(r.resources) == 0 }

// Source gives what a handle stands for; upper case counts as lower.
func (r *Registry) Source(handle string) (Source, bool) {
	s, ok := r.sources[strings.ToLower(handle)]
	return s, ok
}

// Handle registers a source, if it is new, and gives its handle. What an earlier
// mention did not say is filled in.
func (r *Registry) Handle(s Source) string {
	k := key{s.Kind, s.ID}
	if h, ok := r.handles[k]; ok {
		old := r.sources[h]
		for _, f := range []struct {
			to   *string
			from string
		}{{&old.Document, s.Document}, {&old.Base, s.Base}, {&old.Title, s.Title}} {
			if *f.to == "" {
				*f.to = f.from
			}
		}
		r.sources[h] = old
		return h
	}
	if r.sources == nil {
		r.sources, r.handles, r.counts = map[string]Source{}, map[key]string{}, map[Kind]int{}
	}
	r.counts[s.Kind]++
	h := string(s.Kind) + strconv.Itoa(r.counts[s.Kind])
	r.sources[h], r.handles[k] = s, h
	r.replacer = nil
	return h
}

var (
	startTag  = regexp.MustCompile(`<[a-z_]+((?:\s+[a-z_]+="[^"<>]*")+)\s*/?>`)
	attribute = regexp.MustCompile(`([a-z_]+)="([^"<>]*)"`)
	resource  = regexp.MustCompile(`resource://[A-Za-z0-9_-]{22}`)
	handle    = regexp.MustCompile(`^(?i)[cdbw][1-9][0-9]{0,5}$`)
)

// Read registers the sources in the output of a tool: the tags with attributes
// chunk_id (or faq_id), knowledge_id, knowledge_base_id and url, in order; a
// tag's title, or knowledge_title, names the innermost of them.
func (r *Registry) Read(output string) {
	for _, m := range startTag.FindAllStringSubmatch(output, -1) {
		r.tag(attributes(m[1]))
	}
	r.readResources(output)
}

func (r *Registry) readResources(text string) {
	for _, h := range resource.FindAllString(text, -1) {
		if !slices.Contains(r.resources, h) {
			r.resources = append(r.resources, h)
			r.replacer = nil
		}
	}
}

func attributes(text string) map[string]string {
	out := map[string]string{}
	for _, a := range attribute.FindAllStringSubmatch(text, -1) {
		out[a[1]] = html.UnescapeString(a[2])
	}
	return out
}

func first(a map[string]string, names ...string) string {
	for _, n := range names {
		if a[n] != "" {
			return a[n]
		}
	}
	return ""
}

func (r *Registry) tag(a map[string]string) {
	base, doc, chunk := first(a, "knowledge_base_id", "kb_id"), a["knowledge_id"], first(a, "chunk_id", "faq_id")
	title := first(a, "knowledge_title", "title", "doc")
	switch {
	case chunk != "":
		r.Handle(Source{Kind: Chunk, ID: chunk, Document: doc, Base: base, Title: title})
		if doc != "" {
			r.Handle(Source{Kind: Document, ID: doc, Base: base, Title: title})
		}
	case doc != "":
		r.Handle(Source{Kind: Document, ID: doc, Base: base, Title: title})
	case base != "":
		r.Handle(Source{Kind: Base, ID: base, Title: first(a, "name", "title")})
	}
	if base != "" && (chunk != "" || doc != "") {
		r.Handle(Source{Kind: Base, ID: base})
	}
	if u := a["url"]; strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://") {
		r.Handle(Source{Kind: Page, ID: u, Title: first(a, "title")})
	}
}

// Encode gives the output of a tool with handles for ids. What already is a
// handle stays.
func (r *Registry) Encode(output string) string {
	if r.Empty() {
		return output
	}
	output = startTag.ReplaceAllStringFunc(output, func(tag string) string {
		return attribute.ReplaceAllStringFunc(tag, func(a string) string {
			name, value, _ := strings.Cut(a, "=")
			if name != "url" {
				return a
			}
			if h, ok := r.handles[key{Page, html.UnescapeString(strings.Trim(value, `"`))}]; ok {
				return `url="` + h + `"`
			}
			return a
		})
	})
	return r.ids().Replace(output)
}

// ids replaces whatever can be told by itself, the longest first.
func (r *Registry) ids() *strings.Replacer {
	if r.replacer == nil {
		type pair struct{ from, to string }
		var pairs []pair
		for i, h := range r.resources {
			pairs = append(pairs, pair{h, fmt.Sprintf("res://%04d", i+1)})
		}
		for k, h := range r.handles {
			if k.kind != Page && len(k.id) >= 16 { // shorter ones would be found in words
				pairs = append(pairs, pair{k.id, h})
			}
		}
		slices.SortFunc(pairs, func(a, b pair) int {
			if d := len(b.from) - len(a.from); d != 0 {
				return d
			}
			return strings.Compare(a.from, b.from)
		})
		var list []string
		for _, p := range pairs {
			list = append(list, p.from, p.to)
		}
		r.replacer = strings.NewReplacer(list...)
	}
	return r.replacer
}

var citationTag = regexp.MustCompile(`<(kb|web)((?:\s+[a-z_]+="[^"<>]*")+)\s*/>`)

// ReadProse registers the citations in an answer as it was decoded.
func (r *Registry) ReadProse(text string) {
	for _, m := range citationTag.FindAllStringSubmatch(text, -1) {
		r.tag(attributes(m[2]))
	}
	r.readResources(text)
}

// Cited gives the ids of the chunks and the URLs of the pages that an answer
// cites, as it was decoded, each once, in order.
func Cited(answer string) []string {
	var out []string
	for _, m := range citationTag.FindAllStringSubmatch(answer, -1) {
		a := attributes(m[2])
		if id := first(a, "chunk_id", "url"); id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// EncodeProse gives an answer with its citations as the model writes them.
func (r *Registry) EncodeProse(text string) string {
	text = citationTag.ReplaceAllStringFunc(text, func(tag string) string {
		a := attributes(tag)
		for _, k := range []key{{Chunk, a["chunk_id"]}, {Document, a["knowledge_id"]}, {Page, a["url"]}} {
			if h, ok := r.handles[k]; ok && k.id != "" {
				return `<ref id="` + h + `"/>`
			}
		}
		return ""
	})
	if r.Empty() {
		return text
	}
	return r.ids().Replace(text)
}

// Cite is the citation of a source as readers get it; "" for a base.
func (s Source) Cite() string {
	e := html.EscapeString
	switch s.Kind {
	case Chunk:
		return fmt.Sprintf(`<kb doc="%s" chunk_id="%s" kb_id="%s" />`, e(s.Title), e(s.ID), e(s.Base))
	case Document:
		return fmt.Sprintf(`<kb doc="%s" knowledge_id="%s" kb_id="%s" />`, e(s.Title), e(s.ID), e(s.Base))
	case Page:
		return fmt.Sprintf(`<web url="%s" title="%s" />`, e(s.ID), e(s.Title))
	}
	return ""
}
