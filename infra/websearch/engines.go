package websearch

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"refold/handlers"
)

// engine is what one search engine wants to be asked, and how it answers.
type engine struct {
	base      string // "" = must be configured
	path      string
	keyed     bool // needs a key
	engineID  bool // needs an engine id
	authorize func(r *http.Request, key string)
	// ask gives the query's parameters and the body, nil for GET.
	ask  func(c Config, query string, most int) (url.Values, any)
	read func(body []byte) ([]handlers.WebResult, error)
}

var engines = map[string]engine{
	// https://docs.searxng.org/dev/search_api
	"searxng": {path: "/search", authorize: bearer,
		ask: func(_ Config, query string, _ int) (url.Values, any) {
			return url.Values{"q": {query}, "format": {"json"}}, nil
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Results *[]struct {
					Title, URL, Content, Engine string
					Published                   string `json:"publishedDate"`
				}
			}
			if err := decode(body, &in); err != nil || in.Results == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range *in.Results {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.URL, Snippet: r.Content, Source: r.Engine, Published: r.Published})
			}
			return out, nil
		}},
	// https://docs.tavily.com/documentation/api-reference/endpoint/search
	"tavily": {base: "https://api.tavily.com", path: "/search", keyed: true, authorize: bearer,
		ask: func(_ Config, query string, most int) (url.Values, any) {
			return nil, map[string]any{"query": query, "max_results": most, "search_depth": "basic"}
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Results *[]struct {
					Title, URL, Content string
					Published           string `json:"published_date"`
				}
			}
			if err := decode(body, &in); err != nil || in.Results == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range *in.Results {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.URL, Snippet: r.Content, Published: r.Published})
			}
			return out, nil
		}},
	// https://api-dashboard.search.brave.com/app/documentation/web-search
	"brave": {base: "https://api.search.brave.com", path: "/res/v1/web/search", keyed: true,
		authorize: func(r *http.Request, key string) { r.Header.Set("X-Subscription-Token", key) },
		ask: func(_ Config, query string, most int) (url.Values, any) {
			return url.Values{"q": {query}, "count": {strconv.Itoa(most)}, "text_decorations": {"false"}}, nil
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Type string
				Web  struct {
					Results []struct {
						Title, URL, Description string
						Age                     string   `json:"page_age"`
						More                    []string `json:"extra_snippets"`
					}
				}
			}
			if err := decode(body, &in); err != nil || in.Type == "" && in.Web.Results == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range in.Web.Results {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.URL, Snippet: r.Description, Content: strings.Join(r.More, "\n"), Published: r.Age})
			}
			return out, nil
		}},
	// https://developers.google.com/custom-search/v1/using_rest
	"google": {base: "https://www.googleapis.com", path: "/customsearch/v1", keyed: true, engineID: true,
		ask: func(c Config, query string, most int) (url.Values, any) {
			return url.Values{"key": {c.APIKey}, "cx": {c.EngineID}, "q": {query}, "num": {strconv.Itoa(min(most, 10))}}, nil
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Kind  string
				Items []struct {
					Title, Link, Snippet string
				}
			}
			if err := decode(body, &in); err != nil || in.Kind == "" && in.Items == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range in.Items {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.Link, Snippet: r.Snippet})
			}
			return out, nil
		}},
	// https://exa.ai/docs/reference/search
	"exa": {base: "https://api.exa.ai", path: "/search", keyed: true,
		authorize: func(r *http.Request, key string) { r.Header.Set("X-Api-Key", key) },
		ask: func(_ Config, query string, most int) (url.Values, any) {
			return nil, map[string]any{"query": query, "numResults": most, "contents": map[string]any{"text": map[string]any{"maxCharacters": 1000}}}
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Results *[]struct {
					Title, URL, Text string
					Published        string `json:"publishedDate"`
				}
			}
			if err := decode(body, &in); err != nil || in.Results == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range *in.Results {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.URL, Snippet: r.Text, Published: r.Published})
			}
			return out, nil
		}},
	// https://docs.ollama.com/capabilities/web-search
	"ollama": {base: "https://ollama.com", path: "/api/web_search", keyed: true, authorize: bearer,
		ask: func(_ Config, query string, most int) (url.Values, any) {
			return nil, map[string]any{"query": query, "max_results": min(most, 10)}
		},
		read: func(body []byte) ([]handlers.WebResult, error) {
			var in struct {
				Results *[]struct{ Title, URL, Content string }
			}
			if err := decode(body, &in); err != nil || in.Results == nil {
				return nil, noResults(err)
			}
			var out []handlers.WebResult
			for _, r := range *in.Results {
				out = append(out, handlers.WebResult{Title: r.Title, URL: r.URL, Snippet: r.Content})
			}
			return out, nil
		}},
}

func bearer(r *http.Request, key string) { r.Header.Set("Authorization", "Bearer "+key) }

func decode(body []byte, into any) error { return json.Unmarshal(body, into) }

func noResults(err error) error {
	if err == nil {
		err = errors.New("no results in it")
	}
	return err
}
