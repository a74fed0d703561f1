// Package charset says in which encoding a text file is written, and reads it as
// UTF-8. It imports golang.org/x/text. Start reading at Detect.
//
// The detectors that exist always name an encoding, also for ten bytes of a
// table's header that fit three of them. Here an encoding counts only if the
// whole file is valid in it and the text looks like a language that is written so;
// else the file is refused.
package charset

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

// Encoding is how a text is written. Name is that of the web's standard, lower case.
type Encoding struct {
	Name   string
	skip   int64             // bytes of the byte order mark
	decode encoding.Encoding // nil for UTF-8
}

var (
	// ErrBinary is the error of a file that is no text.
	ErrBinary = errors.New("this is no text")
	// ErrUnknown is the error of a text in an encoding that cannot be told.
	ErrUnknown = errors.New("the encoding of this text cannot be told")
	// ErrInvalid is the error of bytes that the encoding does not know.
	ErrInvalid = errors.New("this text holds bytes that its encoding does not know")
)

// sampled is how many bytes around what is not ASCII are looked at for the
// language.
const sampled = 256 << 10

// Detect reads all of r. hint, if it is not "", is what the text says about itself,
// and is tried first.
func Detect(r io.ReadSeeker, hint string) (Encoding, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return Encoding{}, err
	}
	head := make([]byte, 4)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Encoding{}, err
	}
	if e, ok := marked(head[:n]); ok {
		return e, check(r, e)
	}
	p, err := look(r)
	if err != nil {
		return Encoding{}, err
	}
	if e, ok := p.wide(); ok {
		return e, check(r, e)
	}
	switch {
	case p.nul > 0:
		return Encoding{}, ErrBinary
	case p.escaped:
		e := Encoding{Name: "iso-2022-jp", decode: japanese.ISO2022JP}
		return e, check(r, e)
	case p.utf8:
		return Encoding{Name: "utf-8"}, nil
	case p.control > p.bytes/50:
		return Encoding{}, ErrBinary
	}
	if named, err := htmlindex.Get(hint); hint != "" && err == nil {
		name, _ := htmlindex.Name(named)
		e := Encoding{Name: name, decode: named}
		if name != "utf-8" && check(r, e) == nil {
			return e, nil
		}
	}
	e, err := guess(p.sample)
	if err != nil {
		return Encoding{}, err
	}
	return e, check(r, e)
}

func marked(head []byte) (Encoding, bool) {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return Encoding{Name: "utf-8", skip: 3}, true
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")):
		return Encoding{Name: "utf-32le", skip: 4, decode: utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)}, true
	case bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return Encoding{Name: "utf-32be", skip: 4, decode: utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)}, true
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return Encoding{Name: "utf-16le", skip: 2, decode: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)}, true
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return Encoding{Name: "utf-16be", skip: 2, decode: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)}, true
	case bytes.HasPrefix(head, []byte("\x84\x31\x95\x33")):
		return Encoding{Name: "gb18030", skip: 4, decode: simplifiedchinese.GB18030}, true
	}
	return Encoding{}, false
}

// profile is what a whole file looks like.
type profile struct {
	bytes   int64
	nul     int64
	even    int64 // NULs at even places
	control int64 // bytes that no text has
	utf8    bool
	escaped bool // switches to Japanese characters as ISO-2022-JP does
	sample  []byte
}

// wide tells UTF-16 without a mark by its NULs: those of ASCII letters.
func (p *profile) wide() (Encoding, bool) {
	odd := p.nul - p.even
	if p.bytes%2 != 0 || p.nul < 2 || p.nul*10 < p.bytes {
		return Encoding{}, false
	}
	switch {
	case p.even*20 < odd:
		return Encoding{Name: "utf-16le", decode: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)}, true
	case odd*20 < p.even:
		return Encoding{Name: "utf-16be", decode: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)}, true
	}
	return Encoding{}, false
}

// look reads a file once. The sample holds the lines that are not ASCII.
func look(r io.ReadSeeker) (*profile, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	p := &profile{utf8: true}
	buf := make([]byte, 0, 64<<10)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return nil, err
		}
		buf = buf[:len(buf)+n]
		kept := p.add(buf, last)
		if last {
			return p, nil
		}
		buf = append(buf[:0], buf[kept:]...)
	}
}

// add looks at a block and gives how much of it is done with: a character that goes
// on in the next one waits.
func (p *profile) add(b []byte, last bool) int {
	end := len(b)
	if !last {
		// Up to the last line break, so that no character is cut, or, without one,
		// up to the last whole rune.
		if i := bytes.LastIndexByte(b, '\n'); i > len(b)/2 {
			end = i + 1
		} else {
			for i := 1; i <= utf8.UTFMax && i < len(b); i++ {
				if utf8.RuneStart(b[len(b)-i]) {
					if !utf8.FullRune(b[len(b)-i:]) {
						end = len(b) - i
					}
					break
				}
			}
		}
	}
	b = b[:end]
	high := false
	for i, c := range b {
		switch {
		case c == 0:
			p.nul++
			if (p.bytes+int64(i))%2 == 0 {
				p.even++
			}
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b:
			p.control++
		case c >= 0x80:
			high = true
		case c == 0x1b && i+2 < len(b) && b[i+1] == '$' && (b[i+2] == 'B' || b[i+2] == '@'):
			p.escaped = true
		}
	}
	p.bytes += int64(end)
	if !high {
		return end
	}
	p.utf8 = p.utf8 && utf8.Valid(b)
	for _, line := range bytes.SplitAfter(b, []byte("\n")) {
		if room := sampled - len(p.sample); len(p.sample) < sampled && bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }) {
			p.sample = append(p.sample, line[:min(len(line), room)]...)
		}
	}
	return end
}

// check reads all of r and fails with ErrInvalid where the encoding does not fit.
func check(r io.ReadSeeker, e Encoding) error {
	in, err := e.Reader(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// Reader reads r from its start as UTF-8, without the byte order mark. It fails
// with ErrInvalid at bytes that the encoding does not know, and with ErrBinary at
// NULs.
func (e Encoding) Reader(r io.ReadSeeker) (io.Reader, error) {
	if _, err := r.Seek(e.skip, io.SeekStart); err != nil {
		return nil, err
	}
	if e.decode == nil {
		return transform.NewReader(r, &strict{utf8: true}), nil
	}
	return transform.NewReader(transform.NewReader(r, e.decode.NewDecoder()), &strict{}), nil
}

// strict passes UTF-8 on and refuses what is not, what stands for bytes that were
// not, and NULs. U+FFFD in a file that is UTF-8 itself is a character like others.
type strict struct {
	transform.NopResetter
	utf8 bool
}

func (s *strict) Transform(dst, src []byte, last bool) (n, read int, err error) {
	for read < len(src) {
		if c := src[read]; c != 0 && c < utf8.RuneSelf {
			if n == len(dst) {
				return n, read, transform.ErrShortDst
			}
			dst[n] = c
			n, read = n+1, read+1
			continue
		}
		if src[read] == 0 {
			return n, read, ErrBinary
		}
		if !last && !utf8.FullRune(src[read:]) {
			return n, read, transform.ErrShortSrc
		}
		r, size := utf8.DecodeRune(src[read:])
		if r == utf8.RuneError && (!s.utf8 || size == 1) {
			return n, read, ErrInvalid
		}
		if n+size > len(dst) {
			return n, read, transform.ErrShortDst
		}
		n += copy(dst[n:], src[read:read+size])
		read += size
	}
	return n, read, nil
}

// Decode is Detect and Reader in one: the name of the encoding, and the text from
// its start.
func Decode(r io.ReadSeeker) (string, io.Reader, error) {
	e, err := Detect(r, "")
	if err != nil {
		return "", nil, err
	}
	text, err := e.Reader(r)
	return e.Name, text, err
}

var declared = regexp.MustCompile(`(?i)<meta[^>]+charset\s*=\s*["']?\s*([a-z0-9_:.-]{2,32})|<\?xml[^>]+encoding\s*=\s*["']([a-z0-9_:.-]{2,32})`)

// Declared is the encoding that the beginning of an HTML or XML file names, or "".
func Declared(head []byte) string {
	m := declared.FindSubmatch(head[:min(len(head), 4096)])
	if m == nil {
		return ""
	}
	return strings.ToLower(string(m[1]) + string(m[2]))
}

var candidates = []struct {
	Encoding
	score func(string) float64
}{
	{Encoding{Name: "gb18030", decode: simplifiedchinese.GB18030}, familiar(simplified)},
	{Encoding{Name: "big5", decode: traditionalchinese.Big5}, familiar(traditional)},
	{Encoding{Name: "shift_jis", decode: japanese.ShiftJIS}, familiar(kana)},
	{Encoding{Name: "euc-jp", decode: japanese.EUCJP}, familiar(kana)},
	{Encoding{Name: "euc-kr", decode: korean.EUCKR}, familiar(syllables)},
}
