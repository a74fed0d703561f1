package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"refold/handlers"
)

// BlobsFactory makes the blob stores under test.
type BlobsFactory struct {
	Open   func(t testing.TB) handlers.Blobs
	Reopen func(t testing.TB, b handlers.Blobs) handlers.Blobs // nil if it does not persist
}

// RunBlobs is the suite for handlers.Blobs.
func RunBlobs(t *testing.T, f BlobsFactory) {
	contents := map[string][]byte{"empty": {}, "text": []byte("hello"), "NUL": {0, 1, 0, 255}}
	for name, size := range map[string]int{"1 MiB": 1 << 20, "1 MiB and 1": 1<<20 + 1, "5 MiB": 5<<20 + 12345} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i * 7 >> 3)
		}
		contents[name] = b
	}
	check := func(t *testing.T, b handlers.Blobs, tenant, digest string, want []byte) {
		t.Helper()
		r, size, err := b.Open(t.Context(), tenant, digest)
		if err != nil {
			t.Fatal(err)
		}
		if size != int64(len(want)) {
			t.Fatalf("size %d, want %d", size, len(want))
		}
		if len(want) <= 4000 {
			if err := iotest.TestReader(r, want); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes differ from the %d put: %v", len(got), len(want), err)
		}
		for _, off := range []int64{size / 2, max(size-3, 0)} {
			if at, err := r.Seek(off-size, io.SeekEnd); err != nil || at != off {
				t.Fatalf("seek to %d: %d, %v", off, at, err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want[off:]) {
				t.Fatalf("after seek: %d bytes, %v", len(got), err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			b, tenant := f.Open(t), unique("tenant")
			want := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
			for range 2 { // the second time it is there already
				given := bytes.Clone(content)
				digest, err := b.Put(t.Context(), tenant, given)
				if err != nil || digest != want {
					t.Fatalf("digest %s (%v), want %s", digest, err, want)
				}
				if len(given) > 0 {
					given[0]++ // the store keeps its own copy
				}
			}
			check(t, b, tenant, want, content)
			if f.Reopen != nil {
				b = f.Reopen(t, b)
				check(t, b, tenant, want, content)
			}
		})
	}
	t.Run("tenants never see each other", func(t *testing.T) {
		b, tenant := f.Open(t), unique("tenant")
		digest, err := b.Put(t.Context(), tenant, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range [][2]string{{unique("tenant"), digest}, {tenant, "sha256:00"}, {tenant, ""}} {
			if _, _, err := b.Open(t.Context(), c[0], c[1]); !errors.Is(err, handlers.ErrNoBlob) {
				t.Errorf("open %v: %v", c, err)
			}
		}
	})
	t.Run("at the same time", func(t *testing.T) {
		b, tenant := f.Open(t), unique("tenant")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				content := fmt.Appendf(nil, "content %d", i%5)
				digest, err := b.Put(t.Context(), tenant, content)
				if err != nil {
					t.Error(err)
					return
				}
				r, _, err := b.Open(t.Context(), tenant, digest)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("contents", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *collecting){
			"old, keep, remove":                testContents,
			"pages":                            testContentPages,
			"a put and a removal at once":      testPutAgainstRemove,
			"removed while it is read":         testRemovedWhileRead,
			"two who keep and remove the same": testCollectors,
		} {
			t.Run(name, func(t *testing.T) {
				b := f.Open(t)
				test(t, &collecting{t: t, Blobs: b, Contents: b.(handlers.Contents), tenant: unique("tenant")})
			})
		}
	})
}
