package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"refold/handlers"
)

// Bounds of one page or file.
const (
	DefaultMaxPage = 1 << 20          // bytes of a page, after inflation
	DefaultTimeout = 60 * time.Second // of a page, with all its redirects
	fileTimeout    = 10 * time.Minute // of a file
	maxHops        = 5                // redirects
	maxHeader      = 64 << 10         // bytes
	headerTimeout  = 30 * time.Second // until the first byte of an answer
)

// Options of New. The zero value reaches the public web.
type Options struct {
	AllowNet []Range       // ranges that may be reached although they are not public
	Ports    []uint16      // nil = DefaultPorts
	MaxPage  int64         // bytes of a page after inflation, 0 = DefaultMaxPage
	Timeout  time.Duration // of one page, 0 = DefaultTimeout
	Agent    string        // User-Agent, "" = "Refold"
	Rate     float64       // requests a second to one host, 0 = 2; negative = no limit

	Resolver Resolver // nil = the system's
	// Dial connects to an address that was checked; nil = the system's, which is
	// checked once more as it connects.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // nil = the system's authorities
}

// Client reads pages and files. Safe for concurrent use.
type Client struct {
	guard   *guard
	http    *http.Client
	maxPage int64
	timeout time.Duration
	agent   string
	robots  *robots
	pace    *pace
}

var (
	_ handlers.PageReader = (*Client)(nil)
	_ handlers.Fetcher    = (*Client)(nil)
)

// New makes a client. No connection is kept: each request looks its name up and
// is checked. Proxies that the environment names are not used, since what they
// reach cannot be checked.
func New(o Options) *Client {
	c := &Client{guard: newGuard(o), maxPage: o.MaxPage, timeout: o.Timeout, agent: o.Agent, pace: newPace(o.Rate)}
	if c.maxPage <= 0 {
		c.maxPage = DefaultMaxPage
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.agent == "" {
		c.agent = "Refold"
	}
	c.http = &http.Client{
		Transport: &http.Transport{Proxy: nil, DialContext: c.guard.connect, DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: o.TLS,
			TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.robots = &robots{get: c.get, agent: c.agent}
	return c
}

// answer is what the last hop answered. The caller must close it.
type answer struct {
	url      *url.URL
	response *http.Response
	body     io.Reader // inflated
	close    func()
}

// get follows a chain of redirects, each hop checked like the first. allowed, if
// set, is asked before each hop. limit bounds the body, on the wire and after
// inflation. Errors are *handlers.WebError and name the hop.
func (c *Client) get(ctx context.Context, u *url.URL, limit int64, allowed func(context.Context, *url.URL) error) (*answer, error) {
	for hop := 0; ; hop++ {
		if err := c.guard.check(u); err != nil {
			return nil, webError(u, hop, err)
		}
		if allowed != nil {
			if err := allowed(ctx, u); err != nil {
				return nil, webError(u, hop, err)
			}
		}
		if err := c.pace.wait(ctx, u.Host); err != nil {
			return nil, webError(u, hop, err)
		}
		response, err := c.send(ctx, u)
		if err != nil {
			return nil, webError(u, hop, err)
		}
		next, err := redirect(u, response)
		if next == nil && err == nil {
			return c.open(u, hop, response, limit)
		}
		response.Body.Close()
		if err == nil && hop == maxHops {
			err = fmt.Errorf("it leads on after %d redirects", maxHops)
		}
		if err != nil {
			return nil, &handlers.WebError{Code: "redirect_rejected", Message: fmt.Sprintf("%s is not fetched: %v.", place(u, hop), err)}
		}
		u = next
	}
}

func (c *Client) send(ctx context.Context, u *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &handlers.WebError{Code: "invalid_url", Message: "This is not a valid URL."}
	}
	r.Header.Set("User-Agent", c.agent)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.8")
	r.Header.Set("Accept-Encoding", encodings)
	return c.http.Do(r)
}

// redirect gives where an answer leads, nil if it is the last.
func redirect(from *url.URL, r *http.Response) (*url.URL, error) {
	switch r.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := r.Header.Get("Location")
	if location == "" || len(location) > handlers.MaxURL {
		return nil, fmt.Errorf("it leads on without saying where to")
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("it leads to what is no URL")
	}
	next, err := handlers.CanonicalURL(to.String())
	if err != nil {
		return nil, fmt.Errorf("it leads to %.200q: %w", location, err)
	}
	return next, nil
}

// open looks at the status of the last answer and inflates its body.
func (c *Client) open(u *url.URL, hop int, r *http.Response, limit int64) (*answer, error) {
	if r.StatusCode != http.StatusOK {
		r.Body.Close()
		return nil, statusError(u, hop, r)
	}
	body, end, err := inflate(r.Body, r.Header.Get("Content-Encoding"), limit)
	if err != nil {
		end()
		r.Body.Close()
		return nil, &handlers.WebError{Code: "read_failed", Message: fmt.Sprintf("%s cannot be read: it does not arrive as it is announced.", place(u, hop))}
	}
	return &answer{url: u, response: r, body: body, close: sync.OnceFunc(func() { end(); r.Body.Close() })}, nil
}

func statusError(u *url.URL, hop int, r *http.Response) *handlers.WebError {
	e := &handlers.WebError{Code: "http_status", Message: fmt.Sprintf("%s answers with status %d.", place(u, hop), r.StatusCode)}
	switch {
	case r.StatusCode == http.StatusForbidden:
		e.Code, e.Message = "http_403", e.Message+" It does not want to be read by programs."
	case r.StatusCode == http.StatusTooManyRequests:
		e.Code, e.Retryable = "http_429", true
		if s, err := strconv.Atoi(strings.TrimSpace(r.Header.Get("Retry-After"))); err == nil && s > 0 {
			e.Message += fmt.Sprintf(" It asks to wait %d seconds.", s)
		}
	case r.StatusCode >= 500:
		e.Code, e.Retryable = "http_5xx", true
	}
	return e
}

// Transport makes requests that reach public addresses only, for those who
// speak to servers that somebody named through the API. It bounds no body, and
// who follows redirects with it is checked at each.
func (c *Client) Transport() http.RoundTripper { return c.http.Transport }
