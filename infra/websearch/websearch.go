// Package websearch asks search engines by their APIs: SearXNG, Tavily, Brave,
// Google's custom search, Exa and Ollama. It implements handlers.WebSearcher
// and imports handlers. Start reading at New; what an engine wants and says is
// in engines.go.
package websearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"refold/handlers"
)

const (
	maxAnswer = 4 << 20          // bytes of a reply
	timeout   = 20 * time.Second // of a search
	maxText   = 4000             // runes of a result's content
	maxTitle  = 300              // runes
	maxWords  = 400              // runes of a query that are sent
)

// Config names one engine.
type Config struct {
	Provider string // searxng, tavily, brave, google, exa, ollama
	Name     string // for people; "" = Provider
	BaseURL  string // needed by searxng; "" = the engine's own
	APIKey   string
	EngineID string // of google: the search engine's id (cx)
	// Transport makes the requests; nil = the standard one. For an engine that
	// somebody named through the API: that of infra/web, which reaches public
	// addresses only.
	Transport http.RoundTripper
}

// Searcher asks one engine. Safe for concurrent use.
type Searcher struct {
	config Config
	engine engine
	base   *url.URL
	http   *http.Client
}

var _ handlers.WebSearcher = (*Searcher)(nil)

// Providers are the engines that are known, sorted.
func Providers() []string {
	var names []string
	for name := range engines {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New makes a searcher, or says what its configuration lacks.
func New(c Config) (*Searcher, error) {
	e, ok := engines[c.Provider]
	if !ok {
		return nil, fmt.Errorf("web search provider %q is not known; there are %s", c.Provider, strings.Join(Providers(), ", "))
	}
	if c.Name == "" {
		c.Name = c.Provider
	}
	if c.BaseURL == "" {
		c.BaseURL = e.base
	}
	if c.BaseURL == "" {
		return nil, fmt.Errorf("web search provider %q needs a base_url", c.Name)
	}
	if e.keyed && c.APIKey == "" {
		return nil, fmt.Errorf("web search provider %q needs an api_key", c.Name)
	}
	if e.engineID && c.EngineID == "" {
		return nil, fmt.Errorf("web search provider %q needs an engine_id", c.Name)
	}
	base, err := url.Parse(strings.TrimSuffix(c.BaseURL, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("web search provider %q: base_url is not an http or https URL", c.Name)
	}
	return &Searcher{config: c, engine: e, base: base, http: &http.Client{Transport: c.Transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Name implements handlers.WebSearcher.
func (s *Searcher) Name() string { return s.config.Name }

// Search implements handlers.WebSearcher. Results without a usable address, and
// second ones of one address, are left out.
func (s *Searcher) Search(ctx context.Context, query string, most int) ([]handlers.WebResult, error) {
	most = min(max(most, 1), 20)
	r, err := s.request(ctx, clip(strings.Join(strings.Fields(query), " "), maxWords), most)
	if err != nil {
		return nil, fmt.Errorf("request to the search engine %s: %w", s.Name(), err)
	}
	response, err := s.http.Do(r)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if response.StatusCode != http.StatusOK {
		return nil, s.refused(response.StatusCode)
	}
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	results, err := s.engine.read(body)
	if err != nil || len(body) > maxAnswer {
		return nil, &handlers.WebError{Code: "bad_response", Message: fmt.Sprintf("The search engine %s answered with what is not of its protocol.", s.Name())}
	}
	return s.tidy(results, most), nil
}

func (s *Searcher) request(ctx context.Context, query string, most int) (*http.Request, error) {
	u := *s.base
	u.Path = strings.TrimSuffix(u.Path, "/") + s.engine.path
	params, body := s.engine.ask(s.config, query, most)
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		method, content = http.MethodPost, bytes.NewReader(raw)
	}
	u.RawQuery = params.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "Refold")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.engine.authorize != nil && s.config.APIKey != "" {
		s.engine.authorize(r, s.config.APIKey)
	}
	return r, nil
}

// failed tells of a connection, without the address: a key may be in it.
func (s *Searcher) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("search: %w", ctx.Err())
	}
	var told *handlers.WebError
	if errors.As(err, &told) {
		return told
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return &handlers.WebError{Code: "connection_timeout", Message: fmt.Sprintf("The search engine %s did not answer in time.", s.Name()), Retryable: true}
	}
	return &handlers.WebError{Code: "connection_failed", Message: fmt.Sprintf("The search engine %s cannot be reached.", s.Name()), Retryable: true}
}

func (s *Searcher) refused(status int) error {
	e := &handlers.WebError{Code: "http_status", Message: fmt.Sprintf("The search engine %s answered with status %d.", s.Name(), status)}
	switch {
	case status == http.StatusForbidden && s.config.Provider == "searxng":
		e.Code, e.Message = "http_403", e.Message+" Its operator must enable the format json (search.formats in settings.yml)."
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Code, e.Message = "unauthorized", e.Message+" Its key is wrong, or may not be used for this."
	case status == http.StatusTooManyRequests || status == 432:
		e.Code, e.Retryable, e.Message = "http_429", true, e.Message+" Its quota is used up for now."
	case status >= 500:
		e.Code, e.Retryable = "http_5xx", true
	}
	return e
}

func (s *Searcher) tidy(found []handlers.WebResult, most int) []handlers.WebResult {
	out := []handlers.WebResult{}
	seen := map[string]bool{}
	for _, r := range found {
		u, err := handlers.CanonicalURL(r.URL)
		if err != nil || seen[u.String()] || len(out) == most {
			continue
		}
		seen[u.String()] = true
		r.Title, r.Snippet, r.Content = clip(plain(r.Title), maxTitle), clip(plain(r.Snippet), maxText), clip(plain(r.Content), maxText)
		if r.Snippet == "" {
			r.Snippet = r.Content
		}
		if r.Title == "" {
			r.Title = u.Host
		}
		if r.Source == "" {
			r.Source = s.Name()
		}
		r.Published = clip(strings.TrimSpace(r.Published), 40)
		out = append(out, r)
	}
	return out
}

var tag = regexp.MustCompile(`</?[a-zA-Z][^<>]*>`)

// plain takes the marks of matched words out of a text.
func plain(text string) string {
	return strings.TrimSpace(html.UnescapeString(tag.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")))
}

func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// First asks searchers in order: the next one answers where one fails.
type First []handlers.WebSearcher

// Name implements handlers.WebSearcher.
func (f First) Name() string {
	var names []string
	for _, s := range f {
		names = append(names, s.Name())
	}
	return strings.Join(names, ", ")
}

// Search implements handlers.WebSearcher. The error is that of the first.
func (f First) Search(ctx context.Context, query string, most int) ([]handlers.WebResult, error) {
	var first error
	for _, s := range f {
		results, err := s.Search(ctx, query, most)
		if err == nil {
			return results, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		first = &handlers.WebError{Code: "not_configured", Message: "No search engine is configured."}
	}
	return nil, first
}
