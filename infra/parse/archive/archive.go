// Package archive opens office files, which are zip archives, with bounds on what
// they unpack to. It imports the standard library and handlers. Start reading at
// Open.
package archive

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"refold/handlers"
)

// Limits of an archive.
const (
	MaxEntries = 10_000
	MaxSize    = 400 << 20 // of all that it unpacks to
	MaxRatio   = 200       // of that to what it takes packed, from small on
	small      = 32 << 20
)

// Archive is an office file that keeps the limits. What it says about its sizes is
// true: reading more than that of an entry is an error of archive/zip.
type Archive struct {
	Zip   *zip.Reader
	files map[string]*zip.File
}

// Open reads the directory of an archive.
func Open(r io.ReadSeeker, size int64) (*Archive, error) {
	at, ok := r.(io.ReaderAt)
	if !ok {
		raw, err := all(r)
		if err != nil {
			return nil, err
		}
		at, size = bytes.NewReader(raw), int64(len(raw))
	}
	z, err := zip.NewReader(at, size)
	if err != nil {
		return nil, &handlers.ParseError{Code: "damaged", Message: "the file is damaged or was not uploaded completely"}
	}
	if len(z.File) > MaxEntries {
		return nil, tooLarge(fmt.Sprintf("it has %d parts", len(z.File)))
	}
	a := &Archive{Zip: z, files: map[string]*zip.File{}}
	total := uint64(0)
	for _, f := range z.File {
		if f.UncompressedSize64 > MaxSize {
			return nil, tooLarge("a part of it unpacks to more than 400 MB")
		}
		total += f.UncompressedSize64
		if f.UncompressedSize64 > small && f.UncompressedSize64/MaxRatio > f.CompressedSize64 {
			return nil, tooLarge("a part of it unpacks to more than 200 times its size")
		}
		if a.files[f.Name] == nil {
			a.files[f.Name] = f
		}
	}
	if total > MaxSize || total > small && total/MaxRatio > uint64(size) {
		return nil, tooLarge("it unpacks to more than 400 MB or 200 times its size")
	}
	return a, nil
}

func tooLarge(why string) error {
	return &handlers.ParseError{Code: "too_large", Message: why + ": split it, or save it again"}
}

func all(r io.ReadSeeker) ([]byte, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// File is the part with the name, or nil.
func (a *Archive) File(name string) *zip.File { return a.files[name] }

// XML reads a part into v, at most 32 MB of it. A part that is not there leaves v.
func (a *Archive) XML(name string, v any) error {
	f := a.File(name)
	if f == nil {
		return nil
	}
	in, err := f.Open()
	if err != nil {
		return Damaged(err)
	}
	defer in.Close()
	if err := xml.NewDecoder(io.LimitReader(in, small)).Decode(v); err != nil {
		return Damaged(err)
	}
	return nil
}

// Whole fails if a part is there and does not unpack to what it should.
func (a *Archive) Whole(name string) error {
	f := a.File(name)
	if f == nil {
		return nil
	}
	in, err := f.Open()
	if err != nil {
		return Damaged(err)
	}
	defer in.Close()
	if _, err := io.Copy(io.Discard, in); err != nil {
		return Damaged(err)
	}
	return nil
}

// Damaged makes an error of a part a *handlers.ParseError.
func Damaged(err error) error {
	var known *handlers.ParseError
	if errors.As(err, &known) {
		return err
	}
	return &handlers.ParseError{Code: "damaged", Message: "a part of the file cannot be read (" + short(err) + "): save it again"}
}

func short(err error) string {
	s := []rune(err.Error())
	return string(s[:min(len(s), 120)])
}
