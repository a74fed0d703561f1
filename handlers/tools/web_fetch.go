package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"refold/domain/tool"
	"refold/handlers"
)

// WebFetchName is the name of the tool that reads pages of the web.
const WebFetchName = "web_fetch"

const (
	maxFetches   = 10 // pages of one call
	fetchesAtOne = 4
)

// WebFetch reads pages of the web.
type WebFetch struct {
	Pages handlers.PageReader
	// Model gives the model that reads pages for a run, nil if there is none: the
	// pages' own text is what the run's model reads then.
	Model func(c tool.Call) handlers.Model
}

var webFetchDefinition = tool.Definition{
	Name:  WebFetchName,
	Title: "Read web pages",
	Description: "Read pages of the public web: those that web_search found, or whose address the user gave. " +
		"With a prompt, a page is read for you and you get what it says to that; without, you get its text. " +
		"Give all pages that you need in one call. Pages that need a login, and files that are no text, cannot be read.",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true, Handles: map[string]string{"url": tool.HandlePage},
	Timeout: 150 * time.Second, MaxOutput: 2 * webEvidence, // room for the tags, and for what is escaped
	Schema: json.RawMessage(`{"type":"object","properties":{
"items":{"type":"array","minItems":1,"maxItems":10,"description":"The pages.","items":{"type":"object","properties":{
"url":{"type":"string","description":"Address of the page, or the handle of a search result."},
"prompt":{"type":"string","maxLength":2000,"description":"What you want to know from this page. Empty: its text."}},
"required":["url"]}}},
"required":["items"]}`),
}

// Definition implements tool.Tool.
func (*WebFetch) Definition() tool.Definition { return webFetchDefinition }

type fetchResult struct {
	URL           string `json:"url"`
	Status        string `json:"status"` // success, failed, skipped
	Retryable     bool   `json:"retryable"`
	Prompt        string `json:"prompt,omitempty"`
	Title         string `json:"title,omitempty"`
	FinalURL      string `json:"final_url,omitempty"`
	RawContent    string `json:"raw_content,omitempty"`
	ContentLength int    `json:"content_length,omitempty"` // runes of the whole text
	Partial       bool   `json:"partial,omitempty"`        // the page has more than was read
	EvidenceType  string `json:"evidence_type,omitempty"`
	Summary       string `json:"summary,omitempty"`
	SummaryStatus string `json:"summary_status,omitempty"` // not_requested, success, failed
	SummaryCode   string `json:"summary_error_code,omitempty"`
	SummaryError  string `json:"summary_error_message,omitempty"`
	ErrorCode     string `json:"error_code,omitempty"`
	ErrorMessage  string `json:"error_message,omitempty"`

	text string // the whole text
}

type fetchResults struct {
	DisplayType string        `json:"display_type"`
	Results     []fetchResult `json:"results"`
	Count       int           `json:"count"`
	Successful  int           `json:"successful_count"`
	Failed      int           `json:"failed_count"`
	Skipped     int           `json:"skipped_count"`
	AllFailed   bool          `json:"all_failed"`

	References []tool.Reference `json:"references"`
}

// Run implements tool.Tool.
func (t *WebFetch) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Items []struct {
			URL    string `json:"url"`
			Prompt string `json:"prompt"`
		} `json:"items"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("web_fetch: " + err.Error()), nil
	}
	if len(in.Items) == 0 || len(in.Items) > maxFetches {
		return tool.Failed(fmt.Sprintf("Give 1 to %d pages in items.", maxFetches)), nil
	}
	results := make([]fetchResult, len(in.Items))
	var work sync.WaitGroup
	slots := make(chan struct{}, fetchesAtOne)
	first := map[string]int{} // by canonical address
	for i, item := range in.Items {
		r := &results[i]
		*r = fetchResult{URL: item.URL, Prompt: strings.TrimSpace(item.Prompt), SummaryStatus: "not_requested"}
		u, err := handlers.CanonicalURL(item.URL)
		if err != nil {
			code := "invalid_url"
			if strings.TrimSpace(item.URL) == "" {
				code = "invalid_arguments"
			}
			r.fail(&handlers.WebError{Code: code, Message: err.Error()})
			continue
		}
		if at, dup := first[u.String()]; dup {
			r.Status, r.ErrorCode, r.ErrorMessage = "skipped", "duplicate_url", fmt.Sprintf("the same page as item %d", at+1)
			continue
		}
		first[u.String()] = i
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.fetch(ctx, c, u.String(), r)
		})
	}
	work.Wait()
	if err := ctx.Err(); err != nil {
		return tool.Result{}, fmt.Errorf("read pages: %w", err)
	}
	return tellFetched(results)
}

func (r *fetchResult) fail(e *handlers.WebError) {
	r.Status, r.ErrorCode, r.ErrorMessage, r.Retryable = "failed", e.Code, e.Message, e.Retryable
}

func (t *WebFetch) fetch(ctx context.Context, c tool.Call, url string, r *fetchResult) {
	defer func() {
		if recover() != nil {
			r.fail(&handlers.WebError{Code: "internal_error", Message: "The page could not be read because of a fault of the tool, not of the address."})
		}
	}()
	page, err := t.Pages.Page(ctx, url)
	var told *handlers.WebError
	switch {
	case errors.As(err, &told):
		r.fail(told)
		return
	case err != nil:
		r.fail(&handlers.WebError{Code: "internal_error", Message: "The page could not be read.", Retryable: true})
		return
	}
	r.Status, r.EvidenceType, r.Title, r.Partial = "success", "fetched_page", page.Title, page.Partial
	if page.URL != url {
		r.FinalURL = page.URL
	}
	r.text, r.ContentLength = page.Text, utf8.RuneCountInString(page.Text)
	r.RawContent, _ = shorten(page.Text, pageEvidence)
	if r.Prompt == "" || t.Model == nil {
		return
	}
	model := t.Model(c)
	if model == nil {
		return
	}
	summary, code, err := summarize(ctx, model, r.Prompt, page)
	if err != nil {
		r.SummaryStatus, r.SummaryCode, r.SummaryError = "failed", code, err.Error()
		return
	}
	r.SummaryStatus = "success"
	r.Summary, _ = shorten(summary, summaryEvidence)
}

// tellFetched makes the result: what the model reads has webEvidence runes at
// most, shared among the pages so that a short one leaves its room to the rest.
func tellFetched(results []fetchResult) (tool.Result, error) {
	data := fetchResults{DisplayType: "web_fetch_results", Results: results, Count: len(results), References: []tool.Reference{}}
	var texts []string
	for _, r := range results {
		switch r.Status {
		case "success":
			data.Successful++
			text := r.Summary
			if text == "" {
				text, _ = shorten(r.text, pageEvidence)
			}
			texts = append(texts, text)
			data.References = append(data.References, webReference(r.URL, r.Title, text))
		case "skipped":
			data.Skipped++
		default:
			data.Failed++
		}
	}
	data.AllFailed = data.Successful == 0
	room := shares(texts, webEvidence)
	var out strings.Builder
	n := 0
	for _, r := range results {
		out.WriteString("<page")
		attr(&out, "url", r.URL)
		attr(&out, "title", clipped(r.Title, 200))
		attr(&out, "status", r.Status)
		attr(&out, "error", r.ErrorCode)
		if r.Status != "success" {
			out.WriteString(">" + escaped(r.ErrorMessage))
			if r.Retryable {
				out.WriteString(" It may work later.")
			}
			out.WriteString("</page>\n")
			continue
		}
		text, cut := shorten(texts[n], room[n])
		n++
		switch {
		case r.Summary != "":
			attr(&out, "content", "what the page says to the prompt, by a model that read it")
		case r.SummaryStatus == "failed":
			attr(&out, "content", "text of the page, since nobody could read it for you")
		default:
			attr(&out, "content", "text of the page")
		}
		attr(&out, "characters", strconv.Itoa(r.ContentLength))
		if r.Partial {
			attr(&out, "partial", "the page was not read to its end")
		}
		out.WriteString(">\n" + escaped(text))
		if r.Summary == "" && (cut || r.ContentLength > utf8.RuneCountInString(text)) {
			out.WriteString("\n[The page goes on. Ask for it with a prompt that says what you want to know.]")
		}
		out.WriteString("\n</page>\n")
	}
	result, err := answer(strings.TrimSpace(out.String()), data)
	if err == nil && data.AllFailed {
		result.Error = "all page fetches failed. What earlier searches found can still be used, as summaries that nobody has checked."
	}
	return result, err
}

// shares divides total runes among texts: each gets what it needs, the largest
// are cut to one length.
func shares(texts []string, total int) []int {
	out := make([]int, len(texts))
	open := len(texts)
	for open > 0 {
		each, served := total/open, false
		for i, text := range texts {
			if n := utf8.RuneCountInString(text); out[i] == 0 && n <= each {
				out[i], served = max(n, 1), true
				total -= n
				open--
			}
		}
		if !served {
			for i := range out {
				if out[i] == 0 {
					out[i] = each
				}
			}
			break
		}
	}
	return out
}
