package parse

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"refold/handlers"
	"refold/infra/parse/archive"
)

// kind is what a file is, by its bytes first and by its name where those leave a
// choice.
type kind int

const (
	isText kind = iota
	isMarkdown
	isCode
	isHTML
	isCSV
	isJSON
	isPDF
	isDOCX
	isXLSX
)

// identify says what a file is, and its true size.
func identify(f handlers.File) (kind, int64, error) {
	size, err := f.Content.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case size == 0:
		return 0, 0, fail("empty", "the file is empty")
	case size > MaxFile || f.Size > MaxFile:
		return 0, 0, fail("too_large", "the file has %d MB, at most %d MB can be read: split it", max(size, f.Size)>>20, MaxFile>>20)
	}
	if _, err := f.Content.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	head := make([]byte, 1024)
	n, err := io.ReadFull(f.Content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0, err
	}
	head = head[:n]
	ext := strings.ToLower(strings.TrimPrefix(f.Type, "."))
	k, err := byBytes(f.Content, head, size, ext)
	return k, size, err
}

func byBytes(r io.ReadSeeker, head []byte, size int64, ext string) (kind, error) {
	switch {
	case bytes.Contains(head, []byte("%PDF-")) && (ext == "pdf" || bytes.HasPrefix(head, []byte("%PDF-"))):
		return isPDF, nil
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return zipped(r, size, ext)
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return 0, compound(r)
	}
	switch ext {
	case "pdf", "docx", "xlsx", "xlsm":
		return 0, fail("damaged", "the file is not what its name says: no %s begins like this", ext)
	case "csv", "tsv":
		return isCSV, nil
	case "json", "jsonl", "ndjson":
		return isJSON, nil
	case "html", "htm", "xhtml":
		return isHTML, nil
	case "md", "markdown":
		return isMarkdown, nil
	}
	if looksHTML(head) && languages[ext] == "" {
		return isHTML, nil
	}
	if languages[ext] != "" {
		return isCode, nil
	}
	return isText, nil
}

// zipped tells office files from other archives.
func zipped(r io.ReadSeeker, size int64, ext string) (kind, error) {
	z, err := archive.Open(r, size)
	if err != nil {
		return 0, err
	}
	for name, k := range map[string]kind{"word/document.xml": isDOCX, "xl/workbook.xml": isXLSX} {
		if z.File(name) != nil {
			return k, nil
		}
	}
	switch ext {
	case "docx", "xlsx", "xlsm", "pdf":
		return 0, fail("damaged", "the file is an archive, but not a %s file", ext)
	}
	return 0, fail("unsupported", "the file is an archive of a kind that is not read: unpack it and add what is in it")
}

// compound says what an old office file is. Those with a password are of this kind
// too, whatever their name.
func compound(r io.ReadSeeker) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, MaxFile))
	if err != nil {
		return err
	}
	has := func(name string) bool {
		var wide []byte
		for i := range len(name) {
			wide = append(wide, name[i], 0)
		}
		return bytes.Contains(raw, wide)
	}
	switch {
	case has("EncryptedPackage"):
		return fail("encrypted", "the file is protected by a password: save it without one")
	case has("WordDocument"):
		return fail("unsupported", "this is an old Word file: save it as docx")
	case has("Workbook"), has("Book"):
		return fail("unsupported", "this is an old Excel file: save it as xlsx")
	}
	return fail("unsupported", "this is an old office file: save it in a newer format")
}

func looksHTML(head []byte) bool {
	s := strings.ToLower(string(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")))
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html") || strings.HasPrefix(s, "<?xml") && strings.Contains(s, "<html")
}
