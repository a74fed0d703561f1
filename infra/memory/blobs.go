package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"refold/handlers"
)

// Blobs is a handlers.Blobs in memory; the zero value is empty and ready.
type Blobs struct {
	mu      sync.Mutex
	content map[[2]string][]byte // by tenant and digest
}

var _ handlers.Blobs = (*Blobs)(nil)

// Put implements handlers.Blobs.
func (b *Blobs) Put(ctx context.Context, tenant string, content []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.content == nil {
		b.content = map[[2]string][]byte{}
	}
	if _, ok := b.content[[2]string{tenant, digest}]; !ok {
		b.content[[2]string{tenant, digest}] = bytes.Clone(content)
	}
	return digest, nil
}

// Open implements handlers.Blobs.
func (b *Blobs) Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.content[[2]string{tenant, digest}]
	if !ok {
		return nil, 0, fmt.Errorf("%w: %s", handlers.ErrNoBlob, digest)
	}
	return reader{bytes.NewReader(content)}, int64(len(content)), nil
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }
