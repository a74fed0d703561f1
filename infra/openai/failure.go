package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"refold/handlers"
)

// Causes of the end of a call that are the client's own.
var (
	errCallTimeout = errors.New("call timeout")
	errStalled     = errors.New("no data event for too long")
)

// classOf gives the code of an HTTP status and whether another attempt may
// succeed.
func classOf(status int) (code string, transient bool) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return "unauthorized", false
	case status == http.StatusNotFound:
		return "not_found", false
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return "timeout", true
	case status == http.StatusConflict, status == http.StatusTooEarly:
		return "server_error", true
	case status == http.StatusTooManyRequests:
		return "rate_limited", true
	case status == http.StatusRequestEntityTooLarge:
		return "context_overflow", false
	case status == http.StatusServiceUnavailable, status == 529:
		return "overloaded", true
	case status >= 500:
		return "server_error", true
	case status >= 400:
		return "bad_request", false
	}
	return "bad_response", false
}

// What a person can do about two kinds of failure.
const (
	adviceAddress = "correct the address: --model-url, REFOLD_MODEL_URL, or base_url in the configuration file"
	adviceTimeout = "--model-timeout, REFOLD_MODEL_TIMEOUT, or timeout_seconds of the model in the configuration file allows more time"
)

// advice says what a person can do about a code, "" if waiting is all.
func advice(code string) string {
	switch code {
	case "unauthorized":
		return "check the key and the account it belongs to"
	case "not_found":
		return "check the server address (it usually ends in /v1) and the model name"
	case "context_overflow":
		return "the conversation is too long for this model: shorten it or use a model with a larger context"
	case "bad_response":
		return "check the server address; a proxy or a login page may stand in between"
	case "rate_limited":
		return "the server limits how often or how much it may be used"
	}
	return ""
}

// streamError is the failure that an error in a stream stands for.
func (c *Client) streamError(e serverError) error {
	code, transient := e.class(0)
	limit, requested := e.tokens(code)
	return &handlers.ModelError{
		Code: code, Status: e.status, Transient: transient, Limit: limit, Requested: requested,
		Message: c.words("the model server reported an error in its reply", e.message, advice(code)),
	}
}

// statusError is the failure that a response with another status than 2xx
// stands for. It reads a part of the body.
func (c *Client) statusError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said serverError
	found := false
	for _, object := range objects(body) {
		if said, found = serverErrorOf(object, false); found {
			break
		}
	}
	if !found {
		said.message = strings.TrimSpace(contentType(resp) + " " + string(body[:min(len(body), 4<<10)]))
		if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '{' {
			said.read(trimmed)
		}
	}
	code, transient := said.class(resp.StatusCode)
	verb, todo := "refused the request with", advice(code)
	if resp.StatusCode >= 500 {
		verb = "failed with"
	}
	wait := c.retryAfter(resp.Header)
	if wait > MaxRetryAfter {
		todo = strings.TrimPrefix(todo+"; it asked to wait "+wait.Round(time.Second).String(), "; ")
	}
	limit, requested := said.tokens(code)
	if limit == 0 && requested == 0 && code == "context_overflow" {
		limit, requested = tokensNamed(string(body)) // some name them beside the message
	}
	return &handlers.ModelError{
		Code: code, Status: resp.StatusCode, Transient: transient, RetryAfter: min(wait, MaxRetryAfter), Limit: limit, Requested: requested,
		Message: c.words(fmt.Sprintf("the model server %s status %d", verb, resp.StatusCode), said.message, todo),
	}
}

// pageError is the failure of a 2xx response that is no chat completion.
func (c *Client) pageError(resp *http.Response, preview string) error {
	return &handlers.ModelError{
		Code: "bad_response", Status: resp.StatusCode,
		Message: c.words(fmt.Sprintf("the server answered with %s, not with a chat completion", contentType(resp)), preview, advice("bad_response")),
	}
}

func contentType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return "no content type"
	}
	return t
}

// fault says what ended a call: the caller's context, one of the call's own
// limits, or the connection.
func (c *Client) fault(caller, call context.Context, err error) error {
	if caller.Err() != nil {
		return fmt.Errorf("call the model: %w", caller.Err())
	}
	host := c.base.Host
	fail := func(code string, transient bool, format string, args ...any) error {
		return &handlers.ModelError{Code: code, Transient: transient, Message: c.words(fmt.Sprintf(format, args...), "", "")}
	}
	var known *handlers.ModelError
	var redirect *redirectError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	cause := context.Cause(call)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &redirect):
		return fail("bad_response", false, "the model server at %s redirects to %s, %s; nothing was sent there (%s)", host, c.preview(redirect.to), redirect.why, adviceAddress)
	case errors.Is(cause, errStalled):
		return fail("stalled", true, "the model server at %s sent nothing for %s in the middle of its reply (is it busy or out of memory? its log says more; idle_timeout_seconds of the model in the configuration file allows longer pauses)", host, c.cfg.IdleTimeout)
	case errors.Is(cause, errCallTimeout):
		return fail("timeout", true, "the model server at %s did not finish within %s (%s)", host, c.cfg.CallTimeout, adviceTimeout)
	case errors.Is(err, errTooLong), errors.Is(err, errReplyTooLarge):
		return fail("bad_response", false, "the reply of the model server at %s is too large: %v (ask for less at a time, or use another model)", host, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fail("incomplete", true, "the model server at %s closed the connection in the middle of its reply (look at its log: it may have crashed or run out of memory, or a proxy in between ends long answers)", host)
	case errors.As(err, &certificate):
		return fail("connection", false, "the certificate of the model server at %s is not trusted: %v", host, inner(err))
	case errors.As(err, &timeout) && timeout.Timeout():
		return fail("timeout", true, "the model server at %s did not answer in time: %v (%s)", host, inner(err), adviceTimeout)
	}
	return fail("connection", true, "cannot reach the model server at %s, or the connection broke: %v (is it running? its address is set by --model-url, REFOLD_MODEL_URL or base_url in the configuration file)", host, inner(err))
}

// inner leaves out the URL that net/http puts around an error.
func inner(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the wait that a provider asks for, both forms, at most maxWait.
func (c *Client) retryAfter(h http.Header) time.Duration {
	var d time.Duration
	value := strings.TrimSpace(h.Get("Retry-After"))
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		d = capped(ms / 1000)
	} else if s, err := strconv.ParseFloat(value, 64); err == nil {
		d = capped(s)
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(c.cfg.Clock.Now())
	}
	return min(max(d, 0), maxWait)
}

// maxWait is the longest wait that is understood.
const maxWait = 100 * 24 * time.Hour

func capped(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
}
