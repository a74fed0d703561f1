package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/temoto/robotstxt"

	"refold/handlers"
)

const (
	maxRobots   = 512 << 10 // bytes that count of a robots.txt
	robotsFor   = time.Hour // a robots.txt is believed
	robotsRetry = time.Minute
	maxSites    = 1000 // remembered
	robotsWait  = 10 * time.Second
)

// robots knows what sites ask programs not to read. Safe for concurrent use.
type robots struct {
	get   func(context.Context, *url.URL, int64, func(context.Context, *url.URL) error) (*answer, error)
	agent string

	mu    sync.Mutex
	sites map[string]site
}

type site struct {
	rules *robotstxt.RobotsData
	until time.Time
}

// allowed is a *handlers.WebError where a site asks not to be read there. A
// site that has no robots.txt, or whose robots.txt cannot be had, asks nothing;
// one that answers it with an error of its own is left alone for a minute.
func (b *robots) allowed(ctx context.Context, u *url.URL) error {
	origin := u.Scheme + "://" + u.Host
	b.mu.Lock()
	known, ok := b.sites[origin]
	b.mu.Unlock()
	if !ok || time.Now().After(known.until) {
		rules, keep, err := b.read(ctx, origin)
		if err != nil {
			return err
		}
		known = site{rules, time.Now().Add(keep)}
		b.mu.Lock()
		if b.sites == nil || len(b.sites) >= maxSites {
			b.sites = map[string]site{}
		}
		b.sites[origin] = known
		b.mu.Unlock()
	}
	path := u.EscapedPath()
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	if known.rules == nil || known.rules.TestAgent(path, b.agent) {
		return nil
	}
	return &handlers.WebError{Code: "robots_denied", Message: fmt.Sprintf("%s is not fetched: the site's robots.txt asks programs not to read it.", place(u, 0))}
}

func (b *robots) read(ctx context.Context, origin string) (*robotstxt.RobotsData, time.Duration, error) {
	u, err := url.Parse(origin + "/robots.txt")
	if err != nil {
		return nil, 0, fmt.Errorf("address of robots.txt: %w", err)
	}
	short, cancel := context.WithTimeout(ctx, robotsWait)
	defer cancel()
	a, err := b.get(short, u, maxRobots, nil)
	if err != nil {
		var e *handlers.WebError
		switch {
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		case errors.As(err, &e) && e.Code == "http_5xx":
			rules, err := robotstxt.FromStatusAndBytes(http.StatusServiceUnavailable, nil)
			return rules, robotsRetry, err
		case errors.As(err, &e) && e.Code != "http_status" && e.Code != "http_403":
			return nil, 0, nil // the page will say what is wrong with the site
		}
		return nil, robotsFor, nil
	}
	defer a.close()
	data, _, err := readBounded(a.body, maxRobots)
	if err != nil || strings.Contains(a.response.Header.Get("Content-Type"), "html") {
		return nil, robotsFor, nil
	}
	rules, err := robotstxt.FromBytes(data)
	if err != nil {
		return nil, robotsFor, nil
	}
	return rules, robotsFor, nil
}
