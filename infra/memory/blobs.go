package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"refold/handlers"
)

// Blobs is a handlers.Blobs in memory; the zero value is empty and ready.
type Blobs struct {
	mu      sync.Mutex
	content map[[2]string][]byte // by tenant and digest
	seen    map[[2]string]int64  // grows with every Put and Keep
	at      map[int64]time.Time
	stamp   int64
}

var (
	_ handlers.Blobs    = (*Blobs)(nil)
	_ handlers.Contents = (*Blobs)(nil)
)

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
	b.touch([2]string{tenant, digest})
	return digest, nil
}

func (b *Blobs) touch(key [2]string) {
	if b.seen == nil {
		b.seen, b.at = map[[2]string]int64{}, map[int64]time.Time{}
	}
	delete(b.at, b.seen[key])
	b.stamp++
	b.seen[key], b.at[b.stamp] = b.stamp, time.Now()
}

// Keep implements handlers.Contents.
func (b *Blobs) Keep(ctx context.Context, tenant string, digests ...string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, d := range digests {
		if _, ok := b.content[[2]string{tenant, d}]; ok {
			b.touch([2]string{tenant, d})
			n++
		}
	}
	return n, ctx.Err()
}

// Old implements handlers.Contents.
func (b *Blobs) Old(ctx context.Context, age time.Duration, after handlers.Content, limit int) (out []handlers.Content, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, stamp := range b.seen {
		if stamp > after.Seen && time.Since(b.at[stamp]) >= age {
			out = append(out, handlers.Content{Tenant: key[0], Digest: key[1], Size: int64(len(b.content[key])), Seen: stamp})
		}
	}
	slices.SortFunc(out, func(x, y handlers.Content) int { return int(x.Seen - y.Seen) })
	return out[:min(len(out), limit)], ctx.Err()
}

// Remove implements handlers.Contents.
func (b *Blobs) Remove(ctx context.Context, contents ...handlers.Content) (n int, size int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range contents {
		if key := [2]string{c.Tenant, c.Digest}; c.Seen > 0 && b.seen[key] == c.Seen {
			n, size = n+1, size+int64(len(b.content[key]))
			delete(b.content, key)
			delete(b.at, c.Seen)
			delete(b.seen, key)
		}
	}
	return n, size, ctx.Err()
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
