package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path"
	"strings"
)

// WebSearcher finds pages of the web. Implementation: infra/websearch. Safe for
// concurrent use.
type WebSearcher interface {
	// Search gives at most max results, best first. A failed attempt is a *WebError.
	Search(ctx context.Context, query string, max int) ([]WebResult, error)
	// Name is for people, and the source of results that name none.
	Name() string
}

// WebResult is what a search engine says about a page; nobody has looked at the
// page itself.
type WebResult struct {
	Title     string
	URL       string
	Snippet   string
	Content   string // more of the page's text, where the engine gives it
	Source    string // the engine
	Published string // as the engine writes it, "" if it does not
}

// PageReader reads pages of the web as text. Implementation: infra/web, which
// reaches public addresses only. Safe for concurrent use.
type PageReader interface {
	// Page reads one page. A failed attempt is a *WebError.
	Page(ctx context.Context, url string) (Page, error)
}

// Page is the readable text of a page.
type Page struct {
	URL     string // where it was found, after redirects
	Title   string
	Text    string // Markdown; of a text file the text itself
	Partial bool   // the page has more: it was cut at a limit, or broke off
}

// Fetcher gets the files that people name by URL. Implementation: infra/web,
// which reaches public addresses only. Safe for concurrent use.
type Fetcher interface {
	// Fetch opens the file behind a URL; the caller must close its Content. A failed
	// attempt is a *WebError.
	Fetch(ctx context.Context, url string) (Fetched, error)
}

// Fetched is a file that arrives. Reading more than MaxFetched bytes of Content
// is a *WebError (too_large), as is whatever goes wrong on the way (read_failed).
type Fetched struct {
	URL     string        // where it was found, after redirects
	Name    string        // a file name, with the extension that fits its type
	Type    string        // extension, lower case, without the dot, "" if unknown
	Size    int64         // as announced, -1 if not
	Content io.ReadCloser // after inflation
}

// MaxFetched is the largest file that is fetched by URL, in bytes.
const MaxFetched = 100 << 20

// WebError says why a page, a file or a search failed. Code is stable:
// invalid_url, dns_failed, connection_timeout, tls_failed, http_403, http_429,
// http_5xx, http_status, ssrf_rejected (the address is not public),
// redirect_rejected (one that it leads to is not, or there are too many),
// robots_denied, read_failed, html_parse_failed, empty_content,
// connection_failed, too_large, bad_response (of a search engine), unauthorized
// (the key of a search engine). Message is for models and people and holds no
// key.
type WebError struct {
	Code      string
	Message   string
	Retryable bool
}

func (e *WebError) Error() string { return e.Message }

// MaxURL is the longest URL, in bytes.
const MaxURL = 2000

// CanonicalURL checks an http or https URL and gives the one form that equal
// addresses share: scheme and host in lower case, no default port, no fragment,
// a path. A page of a file on GitHub becomes the file. Refused, with a sentence
// that says why: other schemes, credentials in it, hosts that are numbers in
// disguise. Whether its address may be reached is not looked at.
func CanonicalURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" || len(raw) > MaxURL {
		return nil, fmt.Errorf("a URL has 1 to %d bytes", MaxURL)
	}
	if !strings.Contains(raw, "://") && !strings.Contains(strings.SplitN(raw, "/", 2)[0], ":") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("this is not a valid URL")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if err := plainURL(u); err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		port = ""
	}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return rawFile(u), nil
}

// plainURL refuses what no page has.
func plainURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("only http and https can be fetched, not %q", u.Scheme)
	}
	if u.User != nil {
		return errors.New("a URL with a user name or password in it is not fetched")
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if host == "" || u.Opaque != "" {
		return errors.New("the URL names no host")
	}
	if strings.ContainsAny(host, " \t\r\n\\%<>\"'") && !strings.Contains(host, ":") {
		return errors.New("the URL's host is not valid")
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if !strings.Contains(host, ":") && numeric(last) && !dotted(host) {
		return errors.New("the URL's host is a number that is no address in its usual form")
	}
	return nil
}

func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// dotted tells an IPv4 address in its one usual form.
func dotted(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.String() == host
}

// rawFile leads from GitHub's page about a file to the file.
func rawFile(u *url.URL) *url.URL {
	if u.Host != "github.com" && u.Host != "www.github.com" {
		return u
	}
	parts := strings.SplitN(strings.TrimPrefix(path.Clean(u.EscapedPath()), "/"), "/", 4)
	if len(parts) != 4 || parts[2] != "blob" || !strings.Contains(parts[3], "/") {
		return u
	}
	file, err := url.Parse("https://raw.githubusercontent.com/" + parts[0] + "/" + parts[1] + "/" + parts[3])
	if err != nil {
		return u
	}
	return file
}
