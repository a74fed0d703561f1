package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"refold/projections"
)

// stream writes SSE frames to one reader. Each write has its own deadline, so a
// long stream is not cut, and a reader who takes nothing is.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
	readers *atomic.Int64
}

func (a *API) stream(w http.ResponseWriter) *stream {
	timeout := a.WriteTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return &stream{w: w, control: http.NewResponseController(w), timeout: timeout, readers: &a.readers}
}

// begin sends the headers. From here on errors are frames.
func (s *stream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.readers.Add(1)
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream;charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	return s.write([]byte("retry: 2000\n\n"))
}

// end is called when nothing more is written.
func (s *stream) end() {
	if s.begun {
		s.readers.Add(-1)
	}
}

// maxWrite is how much is written under one deadline, in bytes: a reader on a
// slow line who takes a long history bit by bit is not one who takes nothing.
const maxWrite = 32 << 10

func (s *stream) write(b []byte) error {
	for part := range slices.Chunk(b, maxWrite) {
		if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := s.w.Write(part); err != nil {
			return err
		}
		if err := s.control.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) frames(frames []projections.Frame) error {
	var b []byte
	for _, f := range frames {
		b = appendFrame(b, f)
	}
	if len(b) == 0 {
		return nil
	}
	return s.write(b)
}

// appendFrame appends a frame as it is written.
func appendFrame(b []byte, f projections.Frame) []byte {
	b = append(b, "id:"...)
	b = append(b, f.ID...)
	b = append(b, "\nevent:message\ndata:"...)
	b = append(b, f.Data...)
	return append(b, "\n\n"...)
}

// resync tells a reader that its place could not be found and that all follows
// from the start.
func (s *stream) resync(reason string) error {
	data, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return err
	}
	return s.write([]byte("event:resync\ndata:" + string(data) + "\n\n"))
}
