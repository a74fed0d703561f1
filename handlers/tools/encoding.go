package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// Decoder tells in which encoding a text is that is not UTF-8, and reads it from
// its start as UTF-8, without a byte order mark. It fails where the encoding
// cannot be told for sure, and where it is no text.
type Decoder func(io.ReadSeeker) (encoding string, text io.Reader, err error)

// writing is how a file is written.
type writing int

const (
	plainText   writing = iota
	decodedText         // in another encoding
	unknownText         // text of which the encoding cannot be told
	noText
)

// text gives the content of a file as UTF-8. Of what is unknown it is the content
// as it is, so that its ASCII can be found.
func (d Decoder) text(content []byte) ([]byte, string, writing) {
	bad := foreign(content)
	if bad == 0 {
		if binary(content) {
			return nil, "", noText
		}
		return bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), "", plainText
	}
	if d != nil {
		if encoding, r, err := d(bytes.NewReader(content)); err == nil {
			if text, err := io.ReadAll(r); err == nil {
				return text, encoding, decodedText
			}
		}
	}
	switch {
	case binary(content):
		return nil, "", noText
	case bad <= aFew:
		return content, "", plainText
	}
	return content, "", unknownText
}

// open is text for a file of any size. One that is too large to be held is in
// UTF-8 if its beginning is, and read to its end before its encoding is told if
// not; beyond 256 MiB that cannot be told.
func (d Decoder) open(ctx context.Context, f *os.File) (io.Reader, string, writing, error) {
	head, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, "", noText, err
	}
	if len(head) <= maxFile {
		text, encoding, how := d.text(head)
		return bytes.NewReader(text), encoding, how, nil
	}
	if foreign(head) > aFew {
		size, err := f.Seek(0, io.SeekEnd)
		if err == nil && d != nil && size <= maxScan {
			if encoding, r, err := d(awake{ctx, f}); err == nil {
				return r, encoding, decodedText, nil
			}
			err = ctx.Err()
		}
		if err == nil {
			_, err = f.Seek(int64(len(head)), io.SeekStart)
		}
		if err != nil || binary(head) {
			return nil, "", noText, err
		}
		return io.MultiReader(bytes.NewReader(head), f), "", unknownText, nil
	}
	if binary(head) {
		return nil, "", noText, nil
	}
	return io.MultiReader(bytes.NewReader(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))), f), "", plainText, nil
}

// aFew bytes that fit no encoding are damage in a text.
const aFew = 2

// foreign counts the bytes that UTF-8 does not have, if content may be text in
// another encoding. Where most of what is not ASCII is UTF-8 it is that, with some
// bad bytes in it, and the count 0.
func foreign(content []byte) int {
	if binary(content) {
		if wide(content[:min(len(content), sniff)]) {
			return len(content)
		}
		return 0
	}
	if utf8.Valid(content) {
		return 0
	}
	good, bad := 0, 0
	for rest := content; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good++
		}
		rest = rest[size:]
	}
	if bad > good {
		return bad
	}
	return 0
}

// wide tells whether NULs may be those of UTF-16 or UTF-32: there is a byte order
// mark, or they stand in every other place and make up a tenth.
func wide(head []byte) bool {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return true
		}
	}
	var nul [2]int
	for i, c := range head {
		if c == 0 {
			nul[i%2]++
		}
	}
	few, many := min(nul[0], nul[1]), max(nul[0], nul[1])
	return few*20 < many && many*10 > len(head)
}

func binary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniff)], 0) >= 0 }

// awake ends reading with the context.
type awake struct {
	ctx context.Context
	io.ReadSeeker
}

// Read implements io.Reader.
func (a awake) Read(p []byte) (int, error) {
	if err := a.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read a file of the workspace: %w", err)
	}
	return a.ReadSeeker.Read(p)
}
