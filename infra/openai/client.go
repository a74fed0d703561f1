package openai

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"refold/handlers"
)

// finishGrace is how long a server may keep a connection open, silent, after a
// finish reason before the reply counts as ended.
const finishGrace = 5 * time.Second

// Client is one model on one server. Safe for concurrent use.
type Client struct {
	cfg   Config
	base  *url.URL
	model atomic.Pointer[string]
	tools toolList
}

var _ handlers.Model = (*Client)(nil)

func (c *Client) setModel(name string) { c.model.Store(&name) }

// Name is the configured model name, or the one the server offers first; "" as
// long as neither is known.
func (c *Client) Name() string { return *c.model.Load() }

// Chat implements handlers.Model. With an error it also gives the text that was
// emitted before; calls come with a whole reply only. The connection is closed
// when it returns, and at once when ctx ends.
func (c *Client) Chat(ctx context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.cfg.Clock.AfterFunc(c.cfg.CallTimeout, func() { cancel(errCallTimeout) })()

	model, err := c.resolve(call)
	if err != nil {
		return handlers.ModelReply{}, c.fault(ctx, call, err)
	}
	body, err := c.body(model, req)
	if err != nil {
		return handlers.ModelReply{}, fmt.Errorf("encode the model request: %w", err)
	}
	resp, err := c.send(call, http.MethodPost, "chat/completions", body)
	if err != nil {
		return handlers.ModelReply{}, c.fault(ctx, call, err)
	}
	defer resp.Body.Close()
	// Not every transport ends a read with its context.
	defer context.AfterFunc(call, func() { resp.Body.Close() })()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err := c.statusError(resp)
		if call.Err() != nil {
			err = c.fault(ctx, call, call.Err())
		}
		return handlers.ModelReply{}, err
	}
	reply, err := c.read(ctx, call, cancel, resp, req, emit)
	sum := sha256.Sum256(body)
	reply.RequestDigest = "sha256:" + hex.EncodeToString(sum[:])
	return reply, err
}

// send makes a request; the error is the transport's.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the model request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	return c.cfg.HTTPClient.Do(req)
}

// resolve gives the model name, from the server if none is configured.
func (c *Client) resolve(ctx context.Context) (string, error) {
	if name := c.Name(); name != "" {
		return name, nil
	}
	resp, err := c.send(ctx, http.MethodGet, "models", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	missing := &handlers.ModelError{Code: "not_configured", Message: fmt.Sprintf(
		"no model name is configured and the server at %s does not list its models: name one with --model, REFOLD_MODEL or OPENAI_MODEL", c.base.Host)}
	if resp.StatusCode != http.StatusOK {
		err := c.statusError(resp)
		var e *handlers.ModelError
		if errors.As(err, &e) && (e.Transient || e.Code == "unauthorized") {
			return "", err
		}
		return "", missing
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxLine))
	if err != nil {
		return "", err
	}
	_ = json.Unmarshal(raw, &list)
	for _, m := range list.Data {
		if m.ID != "" {
			c.setModel(m.ID)
			return m.ID, nil
		}
	}
	return "", missing
}
