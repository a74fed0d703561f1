package parse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strings"

	"refold/handlers"
	"refold/infra/parse/charset"
	"refold/infra/parse/grid"
)

// csvFile is one table in a text file.
type csvFile struct {
	content  io.ReadSeeker
	encoding charset.Encoding
	comma    rune
	skip     int  // lines that are not of the table
	mac      bool // lines end with \r alone
}

// openCSV finds out how a file is written.
func openCSV(f handlers.File) (*csvFile, error) {
	e, err := charset.Detect(f.Content, "")
	if err != nil {
		return nil, err
	}
	c := &csvFile{content: f.Content, encoding: e}
	in, err := e.Reader(f.Content)
	if err != nil {
		return nil, err
	}
	sample := make([]byte, 64<<10)
	n, err := io.ReadFull(in, sample)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sample = sample[:n]
	c.mac = bytes.IndexByte(sample, '\r') >= 0 && bytes.IndexByte(sample, '\n') < 0
	if c.mac {
		sample = bytes.ReplaceAll(sample, []byte("\r"), []byte("\n"))
	}
	if blank(string(sample)) && n < 64<<10 {
		return nil, fail("empty", "the file holds no table")
	}
	first, _, _ := strings.Cut(string(sample), "\n")
	if s := strings.TrimRight(first, "\r"); len(s) == 5 && strings.HasPrefix(strings.ToLower(s), "sep=") && strings.Contains(",;\t|", s[4:]) {
		c.comma, c.skip = rune(s[4]), 1
		return c, nil
	}
	if n == 64<<10 {
		if i := bytes.LastIndexByte(sample, '\n'); i > 0 {
			sample = sample[:i+1]
		}
	}
	c.comma = delimiter(string(sample), f.Type)
	return c, nil
}

// delimiter is what divides most lines into the same number of cells.
func delimiter(sample, ext string) rune {
	best, most := ',', 0.0
	for _, d := range []rune{',', ';', '\t', '|'} {
		r := csv.NewReader(strings.NewReader(sample))
		r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = d, true, -1, true
		counts, all := map[int]int{}, 0
		for all < 1000 {
			rec, err := r.Read()
			if err != nil {
				break
			}
			counts[len(rec)]++
			all++
		}
		for n, times := range counts {
			if n < 2 {
				continue
			}
			// How even the lines are counts first, then how many cells they have.
			score := float64(times)/float64(all) + float64(min(n, 100))/10_000
			if d == '\t' && ext == "tsv" {
				score++
			}
			if score > most {
				best, most = d, score
			}
		}
	}
	return best
}

func (c *csvFile) notes() []string {
	var out []string
	if c.encoding.Name != "utf-8" {
		out = append(out, "the text was read as "+c.encoding.Name)
	}
	if c.comma != ',' {
		names := map[rune]string{';': "semicolons", '\t': "tabs", '|': "vertical bars"}
		out = append(out, "cells are divided by "+names[c.comma])
	}
	return out
}

func (c *csvFile) Sheets() []string         { return []string{""} }
func (c *csvFile) Close()                   {}
func (c *csvFile) Options(int) grid.Options { return grid.Options{Comma: c.comma != ','} }

// maxQuoted is the longest cell, in bytes. A longer one is a quote that is never
// closed.
const maxQuoted = 4 << 20

// Source gives the rows; lines between them that are blank are one blank row.
func (c *csvFile) Source(int) grid.Source {
	return func(ctx context.Context, yield func([]string) error) error {
		in, err := c.encoding.Reader(c.content)
		if err != nil {
			return err
		}
		if c.mac {
			in = &newlines{in}
		}
		buffered := bufio.NewReaderSize(in, 64<<10)
		for range c.skip {
			if _, err := buffered.ReadSlice('\n'); err != nil {
				return nil
			}
		}
		r := csv.NewReader(&narrow{in: buffered, comma: byte(c.comma)})
		r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = c.comma, true, -1, true
		next := 1 // the line after the last record
		for n := 0; ; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			rec, err := r.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				var wrong *csv.ParseError
				if errors.As(err, &wrong) {
					return fail("damaged", "line %d is not of a table: %v", wrong.Line, wrong.Err)
				}
				return err
			}
			line, _ := r.FieldPos(0)
			if line > next {
				if err := yield(nil); err != nil {
					return err
				}
			}
			last, _ := r.FieldPos(len(rec) - 1)
			next = last + strings.Count(rec[len(rec)-1], "\n") + 1
			for i := range rec {
				if len(rec[i]) > maxQuoted {
					return fail("damaged", "a cell that begins in line %d has more than %d MB: a quote is not closed", line, maxQuoted>>20)
				}
				rec[i] = strings.TrimSpace(rec[i])
			}
			if err := yield(rec); err != nil {
				return err
			}
		}
	}
}

// newlines reads \r as \n.
type newlines struct{ io.Reader }

func (r *newlines) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

// narrow refuses records of millions of cells before they are taken apart.
type narrow struct {
	in     io.Reader
	comma  byte
	cells  int
	quoted bool
}

func (r *narrow) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for _, c := range p[:n] {
		switch {
		case c == r.comma:
			r.cells++
		case c == '"':
			r.quoted = !r.quoted
		case c == '\n' && !r.quoted:
			r.cells = 0
		}
	}
	if r.cells > 1_000_000 {
		return 0, grid.TooMany(r.cells)
	}
	return n, err
}
