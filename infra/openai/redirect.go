package openai

import (
	"fmt"
	"net/http"
	"net/url"
)

// maxRedirects is how many redirects of its own a server may send after another.
const maxRedirects = 5

// redirectError is a redirect that is not followed.
type redirectError struct {
	to  string // without what may be secret in it
	why string
}

func (e *redirectError) Error() string { return "redirect to " + e.to + ", " + e.why }

// ownServer follows redirects that stay on the server that was named and keep the
// request what it is. A conversation goes nowhere else, nor does the key.
func ownServer(next *http.Request, before []*http.Request) error {
	first := before[0]
	e := &redirectError{to: (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host, Path: next.URL.Path}).String()}
	switch {
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		e.why = "which is another server than the one that was named"
	case next.Method != first.Method:
		e.why = "which would take the conversation out of the request"
	case len(before) > maxRedirects:
		e.why = fmt.Sprintf("after %d others", maxRedirects)
	default:
		return nil
	}
	return e
}
