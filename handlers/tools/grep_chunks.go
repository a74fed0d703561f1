package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/domain/tool"
)

// GrepChunksName is the name of the tool that searches passages by pattern.
const GrepChunksName = "grep_chunks"

// Limits of a search by pattern.
const (
	grepKept    = 500       // matches that are ranked
	grepShown   = 30        // passages shown
	grepDocs    = 20        // documents listed
	grepBytes   = 512 << 20 // text that is looked through
	grepAround  = 200       // runes before and after a match
	grepMatch   = 200       // runes of a match
	grepSnippet = 800       // runes of all that is shown of a passage
)

// GrepChunks finds passages by a regular expression, in linear time.
type GrepChunks struct {
	Index knowledge.Index
}

var grepChunksDefinition = tool.Definition{
	Name:  GrepChunksName,
	Title: "Search passages",
	Description: "Find passages of the knowledge bases that contain a pattern, in their text or in the title of their document. Use it for exact words: names, numbers, codes, terms. " +
		"One regular expression; a plain word is one. Several words at once: a|b|c instead of several calls. Upper and lower case are the same. " +
		"For questions of meaning use " + KnowledgeSearchName + ".",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true,
	Schema: json.RawMessage(`{"type":"object","properties":{
"query":{"type":"string","minLength":1,"description":"Regular expression (RE2), at most 500 bytes."}},
"required":["query"]}`),
}

// Definition implements tool.Tool.
func (*GrepChunks) Definition() tool.Definition { return grepChunksDefinition }

type grepDocument struct {
	Document string         `json:"knowledge_id"`
	Base     string         `json:"knowledge_base_id"`
	Title    string         `json:"knowledge_title"`
	Question string         `json:"faq_question,omitempty"`
	InTitle  bool           `json:"title_match"`
	Hits     int            `json:"chunk_hit_count"`
	Total    int            `json:"total_chunk_count"`
	Counts   map[string]int `json:"pattern_counts"`
	Sum      int            `json:"total_pattern_hits"`
	Distinct int            `json:"distinct_patterns"`
	Snippet  string         `json:"match_snippet,omitempty"`
}

type grepChunk struct {
	Chunk    string  `json:"chunk_id"`
	Document string  `json:"knowledge_id"`
	Title    string  `json:"knowledge_title"`
	Index    int     `json:"chunk_index"`
	Score    float64 `json:"score"`
	Snippet  string  `json:"match_snippet"`
	Seen     bool    `json:"already_seen,omitempty"`
}

type grepResults struct {
	DisplayType string           `json:"display_type"`
	Query       string           `json:"query"`
	Queries     []string         `json:"queries"`
	Patterns    []string         `json:"patterns"`
	Chunks      []grepChunk      `json:"chunk_results"`
	Documents   []grepDocument   `json:"knowledge_results"`
	Count       int              `json:"result_count"`
	InDocuments int              `json:"document_count"`
	Total       int              `json:"total_matches"`
	Bases       []string         `json:"knowledge_base_ids"`
	Limit       int              `json:"limit"`
	Max         int              `json:"max_results"`
	References  []tool.Reference `json:"references"`
}

// match is a passage that fits.
type match struct {
	knowledge.Found
	at      []int // of the first match in the text, nil if only the title matches
	hits    int
	inTitle bool
	score   float64
}

// Run implements tool.Tool.
func (t *GrepChunks) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("grep_chunks: " + err.Error()), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	pattern, err := compile(in.Query)
	if err != nil {
		return tool.Failed(err.Error()), nil
	}
	parts := alternatives(in.Query)
	g := grepping{pattern: pattern, parts: parts, documents: map[string]*grepDocument{}, same: map[string]bool{}}
	err = t.Index.Walk(ctx, c.Tenant, c.Scope, func(f knowledge.Found) bool { return g.take(f) && ctx.Err() == nil })
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("search the passages: %w", err)
	}
	return g.answer(c, in.Query)
}

// grepping collects what fits.
type grepping struct {
	pattern   *regexp.Regexp
	parts     []part
	matches   []match
	documents map[string]*grepDocument
	order     []string
	same      map[string]bool // contents that were taken
	total     int             // passages that fit
	read      int             // bytes looked through
	cut       bool
	entry     knowledge.Found // the FAQ entry whose other questions follow
}

func (g *grepping) take(f knowledge.Found) bool {
	switch f.Kind {
	case knowledge.FAQText:
		g.entry = f
	case knowledge.FAQQuestion: // is shown as its entry, once
		if g.entry.Chunk.ID != f.Parent || g.same[f.Parent] || !g.pattern.MatchString(f.Content) {
			return true
		}
		question := f.Content
		f = g.entry
		f.Content = question
	}
	d := g.documents[f.Entry.Document]
	if d == nil {
		d = &grepDocument{Document: f.Entry.Document, Base: f.Entry.Base, Title: f.Title, InTitle: g.pattern.MatchString(f.Title), Counts: map[string]int{}}
		if f.FAQ != nil {
			d.Question = clipped(f.FAQ.Question, 300)
		}
		g.documents[d.Document] = d
		g.order = append(g.order, d.Document)
	}
	d.Total++
	if g.read += len(f.Content); g.read > grepBytes {
		g.cut = true
		return false
	}
	at := g.pattern.FindStringIndex(f.Content)
	if at == nil && !d.InTitle {
		return true
	}
	m := match{Found: f, at: at, inTitle: d.InTitle}
	if at != nil {
		d.Hits++
		for _, p := range g.parts {
			n := len(p.re.FindAllStringIndex(f.Content, 100))
			if n > 0 {
				d.Counts[p.text] += n
				d.Sum += n
				m.hits++
				m.score += float64(min(n, 5)) / 5
			}
		}
		if d.Snippet == "" {
			d.Snippet = snippet(f.Content, at)
		}
		m.score = m.score / float64(len(g.parts)) / 2
	}
	if d.InTitle {
		m.score += 0.5
	}
	m.score = min(m.score, 1)
	if at == nil && f.Index > 0 {
		return true // of a document whose title fits, its beginning stands for all
	}
	g.total++
	if f.FAQ != nil {
		g.same[f.Chunk.ID] = true
	}
	if key := strings.Join(strings.Fields(f.Content), " "); g.same[key] {
		return true
	} else if len(g.matches) < grepKept {
		g.same[key] = true
	}
	if len(g.matches) < grepKept {
		g.matches = append(g.matches, m)
	} else if i := worst(g.matches); g.matches[i].score < m.score {
		g.matches[i] = m
	}
	return true
}

func worst(list []match) int {
	at := 0
	for i, m := range list {
		if m.score < list[at].score {
			at = i
		}
	}
	return at
}

func (g *grepping) answer(c tool.Call, query string) (tool.Result, error) {
	slices.SortStableFunc(g.matches, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	list := g.matches
	if len(list) > 10 {
		list = spread(list, grepShown)
	}
	data := grepResults{DisplayType: "grep_results", Query: query, Queries: []string{query}, Patterns: []string{}, Chunks: []grepChunk{}, Documents: []grepDocument{},
		Total: g.total, Bases: c.Scope.Bases(), Limit: grepKept, Max: grepShown, References: []tool.Reference{}}
	for _, p := range g.parts {
		data.Patterns = append(data.Patterns, p.text)
	}
	for _, id := range g.order {
		if d := g.documents[id]; d.Hits > 0 || d.InTitle {
			d.Distinct = len(d.Counts)
			data.InDocuments++
			data.Documents = append(data.Documents, *d)
		}
	}
	slices.SortStableFunc(data.Documents, func(a, b grepDocument) int {
		return cmp.Or(cmp.Compare(b.Distinct, a.Distinct), cmp.Compare(b.Sum, a.Sum))
	})
	data.Documents = data.Documents[:min(len(data.Documents), grepDocs)]
	var b strings.Builder
	if len(list) == 0 {
		b.WriteString("No passage and no title matches. Try other words or spellings, or ask by meaning with " + KnowledgeSearchName + ". Do not make up what was not found.")
		if g.cut {
			b.WriteString(" Only a part was looked through: name fewer knowledge bases.")
		}
		return answer(b.String(), data)
	}
	shown := seen(c)
	fmt.Fprintf(&b, "<grep_results matches=\"%d\" shown=\"%d\" in=\"%d\">\n", g.total, len(list), data.InDocuments)
	for i, m := range list {
		text := m.Content[:len(m.Content)-len(skip(m.Content, grepSnippet))]
		if m.at != nil {
			text = snippet(m.Content, m.at)
		}
		old := shown[m.Chunk.ID]
		data.Chunks = append(data.Chunks, grepChunk{m.Chunk.ID, m.Entry.Document, m.Title, m.Index, m.score, text, old})
		data.References = append(data.References, reference(m.Found, m.score, tool.MatchKeyword))
		if old {
			b.WriteString(repeated(m.Found, i+1))
			continue
		}
		b.WriteString(passage(m.Found, i+1, text, nil))
	}
	if g.cut {
		b.WriteString("<note>Only a part was looked through: name fewer knowledge bases.</note>\n")
	}
	b.WriteString("</grep_results>")
	data.Count = len(list)
	return answer(b.String(), data)
}

// snippet is what stands around a match.
func snippet(text string, at []int) string {
	from, to := at[0], at[1]
	if n := utf8.RuneCountInString(text[from:to]); n > grepMatch {
		to = from + len(text[from:to]) - len(skip(text[from:to], grepMatch))
	}
	around := grepAround
	for n := 0; n < around && from > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
	}
	rest := text[to:]
	to += len(rest) - len(skip(rest, around))
	out := text[from:to]
	if from > 0 {
		out = "..." + out
	}
	if to < len(text) {
		out += "..."
	}
	return out[:len(out)-len(skip(out, grepSnippet))]
}

// part is one alternative of a pattern.
type part struct {
	text string
	re   *regexp.Regexp
}

// alternatives cuts a|b|c at its top level; a pattern that does not come apart is
// one.
func alternatives(pattern string) []part {
	var texts []string
	depth, class, from := 0, false, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			texts = append(texts, pattern[from:i])
			from = i + 1
		}
	}
	texts = append(texts, pattern[from:])
	var out []part
	for _, t := range texts {
		re, err := compile(t)
		if err != nil || len(out) == 20 {
			re, err = compile(pattern)
			if err != nil {
				return nil
			}
			return []part{{pattern, re}}
		}
		out = append(out, part{t, re})
	}
	return out
}

// spread chooses n of a ranked list so that what is alike does not crowd out the
// rest.
func spread(list []match, n int) []match {
	relevance, texts := make([]float64, len(list)), make([]search.Set, len(list))
	for i, m := range list {
		relevance[i], texts[i] = m.score, search.SetOf(m.Content)
	}
	var out []match
	for _, i := range search.MMR(relevance, texts, n) {
		out = append(out, list[i])
	}
	return out
}
