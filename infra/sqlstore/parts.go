package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"refold/domain/event"
)

// PartSize is how much of a content one row holds, and MaxBlob the largest
// content that is taken, in bytes.
const (
	PartSize = 1 << 20
	MaxBlob  = 1 << 30
)

// Digest checks content that is to be stored and names it. Content of more than
// MaxBlob, or without a tenant, is event.ErrInvalid.
func Digest(tenant string, content []byte) (string, error) {
	if tenant == "" || len(content) > MaxBlob {
		return "", fmt.Errorf("%w: content needs a tenant and at most %d bytes", event.ErrInvalid, MaxBlob)
	}
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Parts reads content that is stored in parts, as the reader gets to them. One
// goroutine at a time.
type Parts struct {
	Digest string
	Size   int64
	// Load reads the n-th part into buf, which may be grown.
	Load func(n int64, buf []byte) ([]byte, error)

	off  int64
	held bool // buf holds part
	part int64
	buf  []byte
}

// Read implements io.Reader.
func (c *Parts) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.off >= c.Size {
		return 0, io.EOF
	}
	if part := c.off / PartSize; !c.held || part != c.part {
		if err := c.load(part); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.off-c.part*PartSize:])
	c.off += int64(n)
	return n, nil
}

func (c *Parts) load(part int64) (err error) {
	c.held = false
	if c.buf, err = c.Load(part, c.buf[:0]); err != nil {
		return err
	}
	if want := min(c.Size-part*PartSize, PartSize); int64(len(c.buf)) != want {
		return fmt.Errorf("%w: part %d of %s has %d bytes, not %d", event.ErrCorrupt, part, c.Digest, len(c.buf), want)
	}
	c.held, c.part = true, part
	return nil
}

// Seek implements io.Seeker.
func (c *Parts) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.off
	case io.SeekEnd:
		offset += c.Size
	}
	if offset < 0 {
		return c.off, errors.New("seek before the start of the content")
	}
	c.off = offset
	return offset, nil
}

// Close implements io.Closer.
func (c *Parts) Close() error {
	c.buf, c.held = nil, false
	return nil
}
