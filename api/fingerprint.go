package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
)

const (
	// maxUpload bounds the body of a request that can be repeated, in bytes.
	maxUpload = 64 << 20
	// maxInMemory bounds how much of it is held in memory; more goes to a file.
	maxInMemory = 1 << 20
)

// fingerprintOf reads the body, puts it back, and gives the digest of method,
// path and body. done releases what holds the body.
func fingerprintOf(w http.ResponseWriter, r *http.Request) (digest string, done func(), err error) {
	body, done, err := keepBody(w, r)
	if err != nil {
		return "", done, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", r.Method, r.URL.RequestURI())
	if err := digestBody(h, r.Header.Get("Content-Type"), body); err != nil {
		return "", done, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", done, fmt.Errorf("keep a request: %w", err)
	}
	r.Body = io.NopCloser(body)
	return hex.EncodeToString(h.Sum(nil)), done, nil
}

// keepBody reads the body so that it can be read twice.
func keepBody(w http.ResponseWriter, r *http.Request) (io.ReadSeeker, func(), error) {
	done := func() {}
	from := http.MaxBytesReader(w, r.Body, maxUpload)
	var small bytes.Buffer
	n, err := io.CopyN(&small, from, maxInMemory)
	if errors.Is(err, io.EOF) {
		return bytes.NewReader(small.Bytes()), done, nil
	}
	if err != nil {
		return nil, done, unread(err)
	}
	file, err := os.CreateTemp("", "refold-request-")
	if err != nil {
		return nil, done, fmt.Errorf("keep a request of more than %d bytes: %w", n, err)
	}
	done = func() {
		_ = file.Close() // it is only read from now on
		_ = os.Remove(file.Name())
	}
	if _, err = file.Write(small.Bytes()); err == nil {
		_, err = io.Copy(file, from)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return file, done, unread(err)
}

// unread explains why a body could not be read.
func unread(err error) error {
	var tooLarge *http.MaxBytesError
	var path *os.PathError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return err
	case errors.As(err, &path):
		return fmt.Errorf("keep a request: %w", err)
	}
	return invalid("the request body could not be read: " + err.Error())
}

// digestBody adds a body to a digest. Forms with files are told apart by their
// parts, because clients choose a new boundary each time they send one.
func digestBody(h hash.Hash, contentType string, body io.ReadSeeker) error {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		_, err := io.Copy(h, body)
		return err
	}
	parts := multipart.NewReader(body, params["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case errors.Is(err, io.EOF): // no form at all
			if _, err = body.Seek(0, io.SeekStart); err == nil {
				_, err = io.Copy(h, body)
			}
			return err
		case err != nil:
			return invalid("the form could not be read: " + err.Error())
		}
		content := sha256.New()
		if _, err := io.Copy(content, part); err != nil {
			return invalid("the form could not be read: " + err.Error())
		}
		fmt.Fprintf(h, "%q %q %x\n", part.Header.Get("Content-Disposition"), part.Header.Get("Content-Type"), content.Sum(nil))
	}
}
