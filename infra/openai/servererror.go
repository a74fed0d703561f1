package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

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
		"context limit", "reduce the length of the input", "token limit exceeded", "exceeded model token limit", "string_above_max_length",
		"maximum input length", "max model length", "max_model_len", "prompt length exceeds", "input tokens exceed", "context_window_exceeded", "上下文长度",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
