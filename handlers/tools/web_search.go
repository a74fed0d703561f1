package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"refold/domain/tool"
	"refold/handlers"
)

// WebSearchName is the name of the tool that searches the web.
const WebSearchName = "web_search"

// What a model reads of the web, in runes.
const (
	searchEvidence  = 500 // of one search result
	summaryEvidence = 4000
	pageEvidence    = 8000 // of one page
	webEvidence     = 16000
	maxWebResults   = 20
	defaultResults  = 5
)

// WebSearch searches the web. Not to be offered where there is no searcher.
type WebSearch struct {
	// For gives the searcher of a tenant, nil if there is none.
	For func(tenant string) handlers.WebSearcher
	Max int // results of one search, 0 = 5, at most 20
}

var webSearchDefinition = tool.Definition{
	Name:  WebSearchName,
	Title: "Search the web",
	Description: "Search the public web. Search the knowledge bases first, with knowledge_search and grep_chunks where they are offered; " +
		"use the web for what they do not answer, and for what is recent. " +
		"A result is what the search engine says about a page, which nobody has looked at: read the page with web_fetch before you rely on it.",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true,
	Schema: json.RawMessage(`{"type":"object","properties":{
"query":{"type":"string","minLength":1,"maxLength":2000,"description":"What to look for, as one would type it into a search engine. Nothing private."}},
"required":["query"]}`),
}

// Definition implements tool.Tool.
func (*WebSearch) Definition() tool.Definition { return webSearchDefinition }

type webResult struct {
	Index        int    `json:"result_index"`
	Title        string `json:"title"`
	URL          string `json:"url"`
	Snippet      string `json:"snippet"`
	Content      string `json:"content"`
	Source       string `json:"source"`
	EvidenceType string `json:"evidence_type"`
	Verified     bool   `json:"page_verified"`
	Published    string `json:"published_at,omitempty"`
}

type webResults struct {
	DisplayType string      `json:"display_type"`
	Query       string      `json:"query"`
	Results     []webResult `json:"results"`
	Count       int         `json:"count"`

	References []tool.Reference `json:"references"`
}

// webReference is what was read of the web as evidence; its URL is its id.
func webReference(url, title, text string) tool.Reference {
	text = text[:len(text)-len(skip(text, tool.MaxReferenceText))]
	sum := sha256.Sum256([]byte(text))
	return tool.Reference{ID: url, Content: text, Title: clipped(title, 200), Source: url, Match: tool.MatchWeb, Kind: "web_search", Score: 1,
		Metadata: map[string]string{"digest": "sha256:" + hex.EncodeToString(sum[:]), "url": url}}
}

// Run implements tool.Tool.
func (t *WebSearch) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("web_search: " + err.Error()), nil
	}
	if strings.TrimSpace(in.Query) == "" {
		return tool.Failed("The query is empty: say what to look for."), nil
	}
	var searcher handlers.WebSearcher
	if c.Tenant != "" && t.For != nil {
		searcher = t.For(c.Tenant)
	}
	if searcher == nil {
		return tool.Failed("No search engine is configured, so the web cannot be searched. Answer from what you have, and say so."), nil
	}
	most := t.Max
	if most <= 0 {
		most = defaultResults
	}
	found, err := searcher.Search(ctx, in.Query, min(most, maxWebResults))
	var told *handlers.WebError
	if errors.As(err, &told) {
		return tool.Failed(told.Message), nil
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("search the web: %w", err)
	}
	data := webResults{DisplayType: "web_search_results", Query: in.Query, Results: []webResult{}, Count: len(found), References: []tool.Reference{}}
	var out strings.Builder
	fmt.Fprintf(&out, "<web_results count=\"%d\">\n", len(found))
	for i, r := range found {
		content := r.Content
		if content == "" {
			content = r.Snippet
		}
		short, _ := shorten(content, searchEvidence)
		snippet, _ := shorten(r.Snippet, searchEvidence)
		data.Results = append(data.Results, webResult{Index: i + 1, Title: r.Title, URL: r.URL, Snippet: snippet, Content: short, Source: r.Source,
			EvidenceType: "search_summary", Published: r.Published})
		data.References = append(data.References, webReference(r.URL, r.Title, short))
		out.WriteString("<result")
		attr(&out, "rank", strconv.Itoa(i+1))
		attr(&out, "url", r.URL)
		attr(&out, "title", clipped(r.Title, 200))
		attr(&out, "published", clipped(r.Published, 40))
		attr(&out, "evidence", "search_summary")
		out.WriteString(">" + escaped(short) + "</result>\n")
	}
	out.WriteString("</web_results>\n")
	if len(found) == 0 {
		out.WriteString("Nothing was found. Try other words, or say that the web gave nothing; do not invent.")
	} else {
		out.WriteString("These are summaries by the search engine. Read the pages that matter with web_fetch.")
	}
	return answer(out.String(), data)
}

// shorten gives at most n runes of a text, with dots for what is left out.
func shorten(text string, n int) (string, bool) {
	if n <= 0 {
		return "", text != ""
	}
	seen := 0
	last := 0
	for i := range text {
		if seen == n-1 {
			last = i
		}
		if seen == n {
			return text[:last] + "…", true
		}
		seen++
	}
	return text, false
}
