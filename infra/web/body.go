package web

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encodings is what is asked for; more is understood (see inflate).
const encodings = "gzip, deflate, br, zstd"

// maxEncodings bounds how often a body may be compressed over.
const maxEncodings = 2

// errCut says that a body has more than may be read.
var errCut = errors.New("the limit of what is read is reached")

// capped reads at most left bytes; then comes errCut, if there is more.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.left <= 0 {
		if n, err := io.ReadFull(c.r, p[:1]); n == 0 {
			return 0, err
		}
		return 0, errCut
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// inflate undoes a Content-Encoding. What arrives and what comes out are each
// bounded by limit, so neither a bomb nor an endless run of empty frames is read
// to its end.
func inflate(body io.Reader, encoding string, limit int64) (io.Reader, func(), error) {
	closers := []func(){}
	end := func() {
		for _, c := range closers {
			c()
		}
	}
	r := io.Reader(&capped{body, limit})
	names := strings.FieldsFunc(strings.ToLower(encoding), func(c rune) bool { return c == ',' || c == ' ' })
	count := 0
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] == "identity" {
			continue
		}
		if count++; count > maxEncodings {
			return nil, end, errors.New("it is compressed too many times over")
		}
		next, closer, err := decoder(names[i], r)
		if err != nil {
			return nil, end, err
		}
		if closer != nil {
			closers = append(closers, closer)
		}
		r = &capped{next, limit}
	}
	return r, end, nil
}

func decoder(name string, r io.Reader) (io.Reader, func(), error) {
	switch name {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		return z, nil, err
	case "deflate":
		// Some servers send the bare stream, others the zlib format that is meant.
		b := bufio.NewReader(r)
		head, err := b.Peek(2)
		if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			z, err := zlib.NewReader(b)
			return z, nil, err
		}
		return flate.NewReader(b), nil, nil
	case "br":
		return brotli.NewReader(r), nil, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderMaxMemory(16<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("it is compressed in a way that is not known here (%.20q)", name)
}

// readBounded reads at most limit bytes. partial tells that there is more, or
// that it broke off after something had arrived.
func readBounded(r io.Reader, limit int64) (data []byte, partial bool, err error) {
	data, err = io.ReadAll(&capped{r, limit})
	switch {
	case err == nil:
		return data, false, nil
	case errors.Is(err, errCut) || len(data) > 0:
		return data, true, nil
	}
	return nil, false, err
}
