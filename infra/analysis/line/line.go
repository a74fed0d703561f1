// Package line is what infra/analysis and the process of refold-data say to each
// other: JSON values, one a line, on the standard input and output of the
// process. Load (one open, then for each sheet a sheet and its rows, then ready)
// comes first, then queries, one at a time. ready and query are answered, the
// rest is not. It imports the standard library only.
package line

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Max is the length of a line, in bytes.
const Max = 16 << 20

// Operations.
const (
	Open  = "open"  // Name: the table
	Sheet = "sheet" // Name, Columns
	Rows  = "rows"  // Rows of the last sheet, in the order of its columns
	Ready = "ready" // no more rows: from now on nothing can be loaded
	Query = "query" // SQL, Millis
)

// Request is what the process is told.
type Request struct {
	Op      string     `json:"op"`
	Name    string     `json:"name,omitempty"`
	Columns []string   `json:"columns,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
	SQL     string     `json:"sql,omitempty"`
	Millis  int        `json:"millis,omitempty"`   // time of the query
	MaxRows int        `json:"max_rows,omitempty"` // of the answer
	MaxSize int        `json:"max_size,omitempty"` // bytes of the answer's values
}

// Reply is what it answers. Code is "" for a success, else refused, invalid,
// too_much or internal.
type Reply struct {
	Code    string   `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Columns []string `json:"columns,omitempty"` // of the table, or of the answer
	Types   []string `json:"types,omitempty"`
	Rows    [][]any  `json:"rows,omitempty"`
	More    bool     `json:"more,omitempty"`
}

// Write writes one value as a line.
func Write(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	if len(raw) >= Max {
		return errors.New("a line is too long")
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

// Reader reads values, one a line. Numbers stay as they are written.
type Reader struct{ scan *bufio.Scanner }

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(nil, Max)
	return &Reader{s}
}

// Read reads the next value; io.EOF at the end.
func (r *Reader) Read(into any) error {
	if !r.scan.Scan() {
		if err := r.scan.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	dec := json.NewDecoder(bytes.NewReader(r.scan.Bytes()))
	dec.UseNumber()
	return dec.Decode(into)
}
