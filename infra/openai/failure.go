package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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

// serverError is what a server says about a failure, in a body or in a stream.
type serverError struct {
	status  int
	kind    string // its type and code, lower case
	message string
}

// serverErrorOf reads an object as an error; ok is false if it is none. Named
// tells that the event around it was called an error.
func serverErrorOf(object json.RawMessage, named bool) (e serverError, ok bool) {
	var o struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Object  json.RawMessage `json:"object"`
		Type    json.RawMessage `json:"type"`
		Choices json.RawMessage `json:"choices"`
	}
	if decodeLoosely(object, &o) != nil {
		return e, false
	}
	switch isError := plainText(o.Object, 0) == "error" || plainText(o.Type, 0) == "error" || named; {
	case !blank(o.Error):
		e.read(o.Error)
		if e.status == 0 && e.kind == "" {
			outer := serverError{}
			outer.read(object)
			e.status, e.kind = outer.status, outer.kind
		}
	case isError:
		e.read(object)
	case !blank(o.Detail) && blank(o.Choices):
		e.read(o.Detail)
	default:
		var c struct {
			Choices []struct {
				Error  json.RawMessage `json:"error"`
				Finish json.RawMessage `json:"finish_reason"`
			} `json:"choices"`
		}
		_ = decodeLoosely(object, &c)
		for _, choice := range c.Choices {
			if !blank(choice.Error) {
				e.read(choice.Error)
				return e, true
			}
			if finishOf(choice.Finish) == "error" {
				return serverError{message: "the server ended the reply with an error"}, true
			}
		}
		return e, false
	}
	return e, true
}

func (e *serverError) read(raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		if e.message = plainText(raw, 0); e.message == "" {
			e.message = string(raw)
		}
		return
	}
	var fields map[string]json.RawMessage
	_ = decodeLoosely(raw, &fields)
	var kinds []string
	for _, k := range []string{"code", "status", "status_code", "type"} {
		text := strings.TrimSpace(plainText(fields[k], 0))
		if text == "" {
			text = string(bytes.TrimSpace(fields[k]))
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			if n >= 400 && n < 600 && e.status == 0 {
				e.status = int(n)
			}
		} else if text != "" && text != "null" {
			kinds = append(kinds, strings.ToLower(text))
		}
	}
	e.kind = strings.Join(kinds, " ")
	for _, k := range []string{"message", "msg", "detail", "error"} {
		if e.message = plainText(fields[k], 0); e.message != "" {
			return
		}
	}
	e.message = string(raw)
}

// class gives the code of the error; status is that of the response, 0 inside a
// stream.
func (e serverError) class(status int) (code string, transient bool) {
	if status == 0 {
		status = e.status
	}
	text := strings.ToLower(e.kind + " " + e.message)
	if status != 429 && status != 401 && status != 403 && overflows(text) {
		return "context_overflow", false
	}
	if status != 0 {
		return classOf(status)
	}
	// No number: the kind counts before the words of the message.
	for _, source := range []string{e.kind, text} {
		for _, w := range []struct {
			words  []string
			status int
		}{
			{[]string{"rate_limit", "rate limit", "too many requests", "insufficient_quota", "quota"}, 429},
			{[]string{"overloaded", "unavailable", "capacity"}, 503},
			{[]string{"timeout", "timed out"}, 504},
			{[]string{"authentication", "invalid_api_key", "permission", "unauthorized"}, 401},
			{[]string{"not_found", "model not found"}, 404},
			{[]string{"invalid_request", "bad_request", "badrequest", "invalid_argument"}, 400},
		} {
			for _, word := range w.words {
				if strings.Contains(source, word) {
					return classOf(w.status)
				}
			}
		}
	}
	return "server_error", true
}

// overflows recognises the words that providers use for a prompt that does not
// fit. The text is in lower case.
func overflows(text string) bool {
	for _, words := range []string{
		"context_length_exceeded", "exceed_context_size", "context length", "context window", "context size",
		"prompt is too long", "prompt too long", "input is too long", "too many tokens", "reduce the length of the messages",
		"range of input length", "input token count", "maximum number of tokens allowed", "model_max_prompt_tokens_exceeded",
		"prompt tokens exceed", "maximum prompt length", "too large for model with",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// streamError is the failure that an error in a stream stands for.
func (c *Client) streamError(e serverError) error {
	code, transient := e.class(0)
	return &handlers.ModelError{
		Code: code, Status: e.status, Transient: transient,
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
	return &handlers.ModelError{
		Code: code, Status: resp.StatusCode, Transient: transient, RetryAfter: c.retryAfter(resp.Header),
		Message: c.words("the model server refused the request", said.message, advice(code)),
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
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	cause := context.Cause(call)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(cause, errStalled):
		return fail("stalled", true, "the model server at %s sent nothing for %s in the middle of its reply", host, c.cfg.IdleTimeout)
	case errors.Is(cause, errCallTimeout):
		return fail("timeout", true, "the model server at %s did not finish within %s", host, c.cfg.CallTimeout)
	case errors.Is(err, errTooLong), errors.Is(err, errReplyTooLarge):
		return fail("bad_response", false, "the reply of the model server at %s is too large: %v", host, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fail("incomplete", true, "the model server at %s closed the connection in the middle of its reply", host)
	case errors.As(err, &certificate):
		return fail("connection", false, "the certificate of the model server at %s is not trusted: %v", host, inner(err))
	case errors.As(err, &timeout) && timeout.Timeout():
		return fail("timeout", true, "the model server at %s did not answer in time: %v", host, inner(err))
	}
	return fail("connection", true, "cannot reach the model server at %s, or the connection broke: %v", host, inner(err))
}

// inner leaves out the URL that net/http puts around an error.
func inner(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the wait that a provider asks for, both forms, at most
// MaxRetryAfter.
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
	return min(max(d, 0), MaxRetryAfter)
}

func capped(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, MaxRetryAfter.Seconds()) * float64(time.Second))
}
