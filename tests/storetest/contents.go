package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"refold/handlers"
)

// collecting is a blob store under test, as the collector sees it, with a tenant
// that nobody else uses.
type collecting struct {
	t *testing.T
	handlers.Blobs
	handlers.Contents
	tenant string
}

func (c *collecting) put(tenant string, content []byte) string {
	c.t.Helper()
	digest, err := c.Put(c.t.Context(), tenant, content)
	if err != nil {
		c.t.Fatal(err)
	}
	return digest
}

// old lists what is old of the tenants.
func (c *collecting) old(age time.Duration, tenants ...string) (out []handlers.Content) {
	c.t.Helper()
	var after handlers.Content
	for {
		page, err := c.Old(c.t.Context(), age, after, 100)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, x := range page {
			if slices.Contains(tenants, x.Tenant) {
				out = append(out, x)
			}
		}
		if len(page) < 100 {
			return out
		}
		after = page[99]
	}
}

func digests(cs []handlers.Content) (out []string) {
	for _, c := range cs {
		out = append(out, c.Digest)
	}
	return out
}

func (c *collecting) has(tenant, digest string) bool {
	c.t.Helper()
	r, _, err := c.Open(c.t.Context(), tenant, digest)
	if err != nil {
		if !errors.Is(err, handlers.ErrNoBlob) {
			c.t.Fatal(err)
		}
		return false
	}
	if _, err := io.ReadAll(r); err != nil {
		c.t.Fatal(err)
	}
	return true
}

func (c *collecting) remove(want int, list ...handlers.Content) {
	c.t.Helper()
	n, size, err := c.Remove(c.t.Context(), list...)
	sum := int64(0)
	for _, x := range list {
		sum += x.Size
	}
	if err != nil || n != want || want == len(list) && size != sum {
		c.t.Fatalf("%d removed, %d bytes, %v; want %d", n, size, err, want)
	}
}

// nextMoment returns when the clock shows another time than now, in milliseconds,
// which is what stores tell apart.
func nextMoment() {
	for now := time.Now().UnixMilli(); time.Now().UnixMilli() <= now; {
		runtime.Gosched()
	}
}

func testContents(t *testing.T, c *collecting) {
	other := unique("tenant")
	a := c.put(c.tenant, []byte("a"))
	nextMoment() // so that their times differ
	b := c.put(c.tenant, bytes.Repeat([]byte("b"), 3<<20))
	c.put(other, []byte("a"))
	if got := c.old(time.Hour, c.tenant, other); len(got) > 0 {
		t.Fatalf("old at once: %v", got)
	}
	first := c.old(0, c.tenant)
	if got := digests(first); !slices.Equal(got, []string{a, b}) || first[0].Size != 1 || first[1].Size != 3<<20 {
		t.Fatalf("%+v", first)
	}
	nextMoment()
	for _, k := range []struct {
		tenant  string
		digests []string
		want    int
	}{{c.tenant, []string{a, "sha256:00", a + "x"}, 1}, {unique("tenant"), []string{a}, 0}, {c.tenant, nil, 0}, {"", []string{a}, 0}} {
		if n, err := c.Keep(t.Context(), k.tenant, k.digests...); err != nil || n != k.want {
			t.Fatalf("kept %d of %v, %v", n, k, err)
		}
	}
	second := c.old(0, c.tenant)
	if got := digests(second); !slices.Equal(got, []string{b, a}) {
		t.Fatalf("after a was kept: %+v", second)
	}
	c.remove(0, first[0]) // was kept since
	c.put(c.tenant, bytes.Repeat([]byte("b"), 3<<20))
	c.remove(0, second[0]) // was put since
	foreign := second[1]
	foreign.Tenant = other
	c.remove(0, foreign)
	c.remove(1, second[1])
	c.remove(0, second[1])
	if c.has(c.tenant, a) || !c.has(other, a) || !c.has(c.tenant, b) {
		t.Fatal("removed the wrong one")
	}
	if got := c.put(c.tenant, []byte("a")); got != a || !c.has(c.tenant, a) {
		t.Fatal("can't be put again")
	}
	c.remove(2, c.old(0, c.tenant)...)
	c.remove(1, c.old(0, other)...)
	if got := c.old(0, c.tenant, other); len(got) > 0 {
		t.Fatalf("left: %+v", got)
	}
}

func testContentPages(t *testing.T, c *collecting) {
	want := map[string]bool{}
	for i := range 7 {
		want[c.put(c.tenant, fmt.Appendf(nil, "page %d", i))] = true
	}
	seen, after := 0, handlers.Content{}
	for {
		page, err := c.Old(t.Context(), 0, after, 2)
		if err != nil || len(page) > 2 {
			t.Fatalf("%d, %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			if x.Tenant == c.tenant && want[x.Digest] {
				delete(want, x.Digest)
				seen++
			}
		}
		after = page[len(page)-1]
	}
	if seen != 7 || len(want) > 0 {
		t.Fatalf("%d seen, %v missing", seen, want)
	}
}

// Whoever comes first: after a put the content is there, also if somebody removes
// it as it was before.
func testPutAgainstRemove(t *testing.T, c *collecting) {
	content := bytes.Repeat([]byte("contested "), 150_000)
	digest := c.put(c.tenant, content)
	for range 40 {
		list := c.old(0, c.tenant)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := c.Remove(t.Context(), list...); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := c.Put(t.Context(), c.tenant, content); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if !c.has(c.tenant, digest) {
			t.Fatal("put and gone")
		}
	}
}

// A reader is told that the content is gone; it never gets anything else.
func testRemovedWhileRead(t *testing.T, c *collecting) {
	content := bytes.Repeat([]byte("m"), 3<<20)
	digest := c.put(c.tenant, content)
	r, _, err := c.Open(t.Context(), c.tenant, digest)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	if _, err := io.ReadFull(r, buf); err != nil {
		t.Fatal(err)
	}
	c.remove(1, c.old(0, c.tenant)...)
	c.put(unique("tenant"), bytes.Repeat([]byte("x"), 3<<20))
	rest, err := io.ReadAll(r)
	if bytes.ContainsRune(rest, 'x') || err == nil && len(rest) != len(content)-1000 || err != nil && !errors.Is(err, handlers.ErrNoBlob) {
		t.Fatalf("%d bytes of the rest, %v", len(rest), err)
	}
}

func testCollectors(t *testing.T, c *collecting) {
	var ids []string
	for i := range 30 {
		ids = append(ids, c.put(c.tenant, fmt.Appendf(nil, "shared %d", i)))
	}
	list := c.old(0, c.tenant)
	var wg sync.WaitGroup
	var mu sync.Mutex
	removed := 0
	for i := range 4 {
		wg.Go(func() {
			mine := slices.Clone(ids)
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			if _, err := c.Keep(t.Context(), c.tenant, mine[:20]...); err != nil {
				t.Error(err)
			}
			n, _, err := c.Remove(t.Context(), list...)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			removed += n
			mu.Unlock()
		})
	}
	wg.Wait()
	if left := len(c.old(0, c.tenant)); left+removed != 30 {
		t.Fatalf("%d left and %d removed of 30", left, removed)
	}
}
