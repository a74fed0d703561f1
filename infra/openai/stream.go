package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"refold/handlers"
)

// stream reads the body of one response to its end.
type stream struct {
	client *Client
	caller context.Context // the caller's
	call   context.Context // the call's own, which ends with its limits too
	cancel context.CancelCauseFunc
	resp   *http.Response
	events *eventReader
	reply  *assembly
	chunks bool        // something of a chat completion came
	idle   func() bool // stops the idle limit
	refuse error       // of emit
}

// read gives the reply of a response. With an error it gives the text so far.
func (c *Client) read(caller, call context.Context, cancel context.CancelCauseFunc, resp *http.Response,
	req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	s := &stream{client: c, caller: caller, call: call, cancel: cancel, resp: resp, events: newEventReader(resp.Body)}
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	s.reply = newAssembly(func(d handlers.ModelDelta) error {
		if caller.Err() != nil {
			return caller.Err()
		}
		s.refuse = emit(d)
		return s.refuse
	}, names)
	defer s.events.free()
	s.wait()
	defer s.rest()
	for {
		done, err := s.step()
		switch {
		case err != nil:
			return s.failed(err)
		case done:
			reply, err := s.reply.end()
			if err != nil {
				return s.failed(err)
			}
			return reply, nil
		}
	}
}

// wait starts the idle limit anew. Only data events do: comments keep a
// connection open, they do not bring an answer.
func (s *stream) wait() {
	limit := s.client.cfg.IdleTimeout
	if s.reply.finish != "" {
		limit = min(limit, finishGrace)
	}
	s.idle = s.client.cfg.Clock.AfterFunc(limit, func() { s.cancel(errStalled) })
}

func (s *stream) rest() { s.idle() }

// step takes one event in and tells whether the reply is whole.
func (s *stream) step() (done bool, err error) {
	ev, err := s.events.next()
	if s.call.Err() != nil {
		err = s.call.Err()
	}
	switch whole := s.reply.finish != ""; {
	case err != nil && s.caller.Err() != nil:
		return false, err
	case errors.Is(err, errPage):
		return false, s.client.pageError(s.resp, s.events.junk)
	case err != nil && (whole || s.events.json != nil && s.reply.whole):
		// However the connection ends: a finish reason makes a reply whole, and
		// so does the end of a document that holds a message.
		return true, nil
	case errors.Is(err, errDamaged):
		return false, &handlers.ModelError{
			Code: "bad_response", Status: s.resp.StatusCode, Transient: true,
			Message: s.client.words("an event of the model server's reply is damaged", s.events.junk, ""),
		}
	case errors.Is(err, io.EOF) && !s.chunks && s.events.junk != "":
		return false, s.client.pageError(s.resp, s.events.junk)
	case err != nil:
		return false, err
	case ev.done:
		return true, nil
	}
	list := objects(ev.data)
	named := ev.name == "error"
	if named && len(list) == 0 {
		e := serverError{}
		e.read(ev.data)
		return false, s.client.streamError(e)
	}
	if len(list) == 0 {
		return false, nil
	}
	// The limit rests meanwhile: a slow consumer is no silent server.
	s.rest()
	defer s.wait()
	for _, object := range list {
		if err := s.take(object, named); err != nil {
			return false, err
		}
	}
	return false, nil
}

// take adds one object to the reply.
func (s *stream) take(object json.RawMessage, named bool) error {
	if named || bytes.Contains(object, []byte(`"error"`)) || bytes.Contains(object, []byte(`"detail"`)) {
		if e, ok := serverErrorOf(object, named); ok {
			return s.client.streamError(e)
		}
	}
	var c chunk
	if err := decodeLoosely(object, &c); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	if c.Choices != nil || c.Usage != nil || c.Model != "" {
		s.chunks = true
	} else {
		s.events.note(object)
	}
	return s.reply.add(c)
}

// failed gives the text so far, with what was held back of it, and the typed
// error. An error of emit comes back as it is.
func (s *stream) failed(err error) (handlers.ModelReply, error) {
	if s.refuse == nil && s.caller.Err() == nil {
		_ = s.reply.flush()
	}
	if s.refuse != nil {
		return s.reply.partial(), s.refuse
	}
	return s.reply.partial(), s.client.fault(s.caller, s.call, err)
}
