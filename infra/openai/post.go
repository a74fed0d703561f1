package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"refold/handlers"
)

// maxAnswer is the largest answer to a request that is not a chat, in bytes.
const maxAnswer = 64 << 20

// taskClient is a client for another task than chatting. BaseURL may end in the
// path of that task.
func taskClient(c Config, path string, reserved ...string) (*Client, error) {
	if c.Model == "" {
		return nil, fmt.Errorf("a model for /%s must be named", path)
	}
	for _, r := range reserved {
		if _, ok := c.ExtraBody[r]; ok {
			return nil, fmt.Errorf("extra body: %q cannot be set", r)
		}
	}
	c.BaseURL = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(c.BaseURL), "/"), "/"+path)
	return New(c)
}

// post sends a request and gives the JSON of the answer. Failures are
// *handlers.ModelError, but for the caller's context.
func (c *Client) post(ctx context.Context, path string, fields map[string]any) (json.RawMessage, error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.cfg.Clock.AfterFunc(c.cfg.CallTimeout, func() { cancel(errCallTimeout) })()

	maps.Copy(fields, c.cfg.ExtraBody)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	fields["model"] = c.Name()
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	resp, err := c.send(call, http.MethodPost, path, body)
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	defer resp.Body.Close()
	// Not every transport ends a read with its context.
	defer context.AfterFunc(call, func() { resp.Body.Close() })()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err := c.statusError(resp)
		if call.Err() != nil {
			err = c.fault(ctx, call, call.Err())
		}
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	if len(raw) > maxAnswer {
		return nil, c.bad(path, "it is too large", nil)
	}
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, c.bad(path, "it is "+contentType(resp)+", not JSON", raw[:min(len(raw), 4<<10)])
	}
	if said, found := serverErrorOf(raw, false); found { // with a status that says all is well
		return nil, c.streamError(said)
	}
	return raw, nil
}

// bad is the failure of an answer that cannot be used.
func (c *Client) bad(path, why string, preview []byte) error {
	return &handlers.ModelError{Code: "bad_response", Message: c.words(fmt.Sprintf("the answer of the model server at %s to /%s can't be used: %s", c.base.Host, path, why), string(preview), advice("bad_response"))}
}
