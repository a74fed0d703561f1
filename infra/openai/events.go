package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

var (
	errTooLong = errors.New("a line or event is larger than the limit")
	errPage    = errors.New("the body is a web page")
	errDamaged = errors.New("an event is not valid JSON")
)

// event is one data event of a body. Done is the end marker.
type event struct {
	name string // of the SSE event, "" if none
	data []byte // valid JSON, until the next call
	done bool
}

// eventReader reads a body as events, whatever its framing: server-sent events
// (any line ending, with or without the space, the blank lines or the last line
// ending), JSON values one after the other, or one JSON document. It decides by
// the first byte, since content types are not reliable.
type eventReader struct {
	lines lineReader
	json  *json.Decoder
	begun bool
	err   error // comes after the pending event

	name    string
	pending []byte
	junk    string // the first text that was no event, shortened
}

// readers are kept from one body to the next: they are large.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

func newEventReader(r io.Reader) *eventReader {
	b := readers.Get().(*bufio.Reader)
	b.Reset(r)
	return &eventReader{lines: lineReader{r: b}}
}

// free gives back what the reader holds; nothing may be read after it.
func (e *eventReader) free() {
	e.lines.r.Reset(nil)
	readers.Put(e.lines.r)
	e.lines.r, e.err = nil, io.EOF
}

// next gives the next event. io.EOF is the end of the body; text cut off by it
// is dropped. Other errors are errPage, errTooLong, errDamaged or the reader's.
func (e *eventReader) next() (event, error) {
	if !e.begun {
		e.begun = true
		if err := e.begin(); err != nil {
			e.err = err
		}
	}
	if e.err != nil {
		return event{}, e.err
	}
	if e.json != nil {
		return e.nextJSON()
	}
	return e.nextSSE()
}

func (e *eventReader) begin() error {
	r := e.lines.r
	if bom, err := r.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	for {
		first, err := r.Peek(1)
		if err != nil {
			return err
		}
		switch first[0] {
		case ' ', '\t', '\r', '\n':
			r.Discard(1)
			continue
		case '<':
			page := make([]byte, 4<<10)
			n, _ := io.ReadFull(r, page)
			e.junk = string(page[:n])
			return errPage
		case '{', '[':
			e.json = json.NewDecoder(&boundedReader{r: r, left: MaxLine})
		}
		return nil
	}
}

func (e *eventReader) nextJSON() (event, error) {
	var v json.RawMessage
	err := e.json.Decode(&v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		rest, _ := io.ReadAll(io.LimitReader(e.json.Buffered(), 4<<10))
		e.note(rest)
		err = fmt.Errorf("%w: %s", errDamaged, syntax)
	}
	if err != nil {
		e.err = err
		return event{}, err
	}
	return event{data: v}, nil
}

func (e *eventReader) nextSSE() (event, error) {
	e.pending = e.pending[:0]
	count := 0 // data lines of the event
	for {
		line, err := e.lines.next()
		if err != nil {
			e.err = err
			if errors.Is(err, errTooLong) {
				return event{}, err
			}
		}
		if err == nil && len(line) == 0 {
			if count > 0 {
				if ev, ok, err := e.take(false); ok || err != nil {
					return ev, err
				}
			}
			count, e.name = 0, ""
			continue
		}
		if e.field(line) {
			count++
			if len(e.pending) > MaxLine {
				e.err = errTooLong
				return event{}, e.err
			}
		}
		// One data line is nearly always the whole event: it need not wait for
		// the blank line, which some servers leave out.
		if count == 1 || e.err != nil {
			if ev, ok, _ := e.take(true); ok {
				return ev, nil
			}
		}
		if e.err != nil {
			return event{}, e.err
		}
	}
}

// field takes one line in and tells whether it was data.
func (e *eventReader) field(line []byte) bool {
	if len(line) == 0 || line[0] == ':' {
		return false
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case line[0] == '{':
		value = line // bare JSON between events, as some servers report errors
	case string(name) == "event":
		e.name = string(bytes.TrimSpace(value))
		return false
	case string(name) == "id", string(name) == "retry":
		return false
	case string(name) != "data":
		e.note(line)
		return false
	}
	if len(e.pending) > 0 {
		e.pending = append(e.pending, '\n')
	}
	e.pending = append(e.pending, value...)
	return true
}

// take gives the pending event if it is one. Early asks before its end is known:
// what is not complete then is no fault yet.
func (e *eventReader) take(early bool) (event, bool, error) {
	data := bytes.TrimSpace(e.pending)
	switch {
	case len(data) == 0:
	case string(data) == "[DONE]":
		return event{done: true}, true, nil
	case json.Valid(data):
		return event{name: e.name, data: data}, true, nil
	case early:
		return event{}, false, nil
	case data[0] == '{':
		e.note(data)
		e.err = errDamaged
		return event{}, false, e.err
	case e.name == "error":
		quoted, _ := json.Marshal(string(data))
		return event{name: e.name, data: quoted}, true, nil
	default:
		e.note(data)
	}
	e.pending = e.pending[:0]
	return event{}, false, nil
}

func (e *eventReader) note(text []byte) {
	if e.junk == "" {
		e.junk = string(text[:min(len(text), 4<<10)])
	}
}

// lineReader gives lines that end in LF, CR LF or CR.
type lineReader struct {
	r    *bufio.Reader
	line []byte
	cr   bool // the last line ended in CR: an LF belongs to it
}

// next gives the next line without its end, valid until the call after. With an
// error it gives what there was of the line.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		if _, err := l.r.Peek(1); err != nil {
			return l.line, err
		}
		chunk, _ := l.r.Peek(l.r.Buffered())
		if l.cr {
			l.cr = false
			if chunk[0] == '\n' {
				l.r.Discard(1)
				continue
			}
		}
		n := bytes.IndexAny(chunk, "\r\n")
		if n < 0 {
			l.line = append(l.line, chunk...)
			l.r.Discard(len(chunk))
		} else {
			l.line = append(l.line, chunk[:n]...)
			l.cr = chunk[n] == '\r'
			l.r.Discard(n + 1)
		}
		if len(l.line) > MaxLine {
			return nil, errTooLong
		}
		if n >= 0 {
			return l.line, nil
		}
	}
}

// boundedReader fails, rather than ends, after its limit.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
