package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"refold/domain/request"
)

// recordWait bounds the recording of an answer. It also happens when the client
// is gone.
const recordWait = 5 * time.Second

// recorder holds an answer back until it is recorded. The stream of a run is
// recorded by the run's id before its first byte, and then passes through.
type recorder struct {
	http.ResponseWriter
	once                *once
	request             *http.Request
	stream, reservation string
	leave               func()

	status  int
	body    bytes.Buffer
	instead any
	passing bool
}

// Unwrap lets http.ResponseController reach the connection.
func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *recorder) WriteHeader(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	if strings.HasPrefix(c.Header().Get("Content-Type"), "text/event-stream") {
		if run := c.Header().Get("X-Refold-Run"); run != "" {
			c.record(request.RequestAnswered{Reservation: c.reservation, Status: status, Head: c.head(), Run: run})
		}
		c.leave() // who waits can read along
		c.pass()
	}
}

// Write implements http.ResponseWriter.
func (c *recorder) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	if !c.passing && c.body.Len()+len(b) > request.MaxAnswer {
		c.pass() // too large to be kept: a repetition makes it again
	}
	if c.passing {
		return c.ResponseWriter.Write(b)
	}
	return c.body.Write(b)
}

func (c *recorder) pass() {
	c.passing = true
	c.ResponseWriter.WriteHeader(c.status)
	_, _ = c.ResponseWriter.Write(c.body.Bytes()) // the client may be gone
	c.body.Reset()
}

// head are the headers that belong to the answer.
func (c *recorder) head() map[string]string {
	out := map[string]string{}
	for name := range c.Header() {
		if name == "Content-Type" && c.Header().Get("X-Refold-Run") == "" || name == "Etag" || strings.HasPrefix(name, "X-Refold-") {
			out[name] = c.Header().Get(name)
		}
	}
	return out
}

// finish records a whole answer and sends it. A refusal had no effect: it frees
// the key. After a failure the outcome is not known: the reservation stays, and
// the next try finds out.
func (c *recorder) finish() {
	if c.passing {
		return
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	switch {
	case c.status < 400:
		body := c.body.String()
		if c.instead != nil {
			raw, err := json.Marshal(c.instead)
			if err != nil {
				c.once.api.log(c.request).Error("encode an answer to be kept", "error", err)
			}
			body = string(raw)
		}
		c.record(request.RequestAnswered{Reservation: c.reservation, Status: c.status, Head: c.head(), Body: body})
	case c.status < 499:
		ctx, cancel := c.context()
		defer cancel()
		if err := c.once.api.Commands.Release(ctx, c.once.by, c.stream, c.reservation, c.status); err != nil {
			c.once.api.log(c.request).Warn("a refused request keeps its Idempotency-Key", "error", err)
		}
	}
	c.pass()
}

func (c *recorder) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.request.Context()), recordWait)
}

// record keeps the answer. If the store does not take it, the request is done
// all the same; a repetition finds that out.
func (c *recorder) record(answer request.RequestAnswered) {
	ctx, cancel := c.context()
	defer cancel()
	if _, err := c.once.api.Commands.Answer(ctx, c.once.by, c.stream, answer); err != nil {
		c.once.api.log(c.request).Warn("an answer is not recorded; a repetition of the request makes it again", "error", err)
	}
}
