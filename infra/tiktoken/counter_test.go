package tiktoken

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"
)

func loaded(t testing.TB) *Counter {
	t.Helper()
	c := &Counter{}
	<-c.Load()
	return c
}

// The reference numbers are those of OpenAI's own tiktoken.
func TestCount(t *testing.T) {
	c := loaded(t)
	for text, want := range map[string]int{
		"":                             0,
		"hello world":                  2,
		"tiktoken is great!":           6,
		"antidisestablishmentarianism": 6,
		"2 + 2 = 4":                    7,
		"お誕生日おめでとう":                    9,
		"你好世界 hello":                   6,
		"<|endoftext|>":                7, // as text: never the special token
	} {
		if got := c.Count(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
}

// P43: no network, no files: the vocabulary is embedded, and until it is loaded
// an estimate is given at once, and logged once.
func TestP43_FallbackAtOnceAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	gate := make(chan struct{})
	c := &Counter{Log: slog.New(slog.NewTextHandler(&log, nil)), make: func() (*codec.Codec, error) {
		<-gate
		return nil, errors.New("no such host")
	}}
	text := "你好世界 hello"
	for range 3 {
		if n := c.Count(text); n != 6 {
			t.Errorf("%d tokens while loading, want 4 for the Han characters and 2", n)
		}
	}
	close(gate)
	<-c.Load()
	if n := c.Count(text); n != 6 {
		t.Errorf("%d tokens after the failure", n)
	}
	if n := strings.Count(log.String(), "estimates"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestLoad_PanicCostsPrecisionOnly(t *testing.T) {
	c := &Counter{make: func() (*codec.Codec, error) { panic("broken") }}
	<-c.Load()
	if n := c.Count(strings.Repeat("a", 401)); n != 101 {
		t.Fatal(n)
	}
}

// A text that is cut into pieces counts a little more, never less.
func TestCount_LongTexts(t *testing.T) {
	c := loaded(t)
	words := strings.Repeat("The quick brown fox jumps over the lazy dog, 12345 times! ", 200)
	whole, err := c.codec.Load().Count(words)
	if got := c.Count(words); err != nil || got != whole {
		t.Errorf("%d tokens, %d in one piece (%v)", got, whole, err)
	}
	for _, text := range []string{strings.Repeat("a", 100_000), strings.Repeat("\n \t", 30_000), strings.Repeat("中文😀", 10_000), strings.Repeat("\xff", 9000)} {
		if n := c.Count(text); n < len(text)/128 {
			t.Errorf("%q...: %d tokens", text[:8], n)
		}
	}
	r := rand.New(rand.NewSource(1))
	for range 50 {
		b := make([]byte, r.Intn(8000))
		r.Read(b)
		if n := c.Count(string(b)); len(b) > 0 && n == 0 {
			t.Fatalf("%x", b)
		}
	}
}

func TestCount_Concurrent(t *testing.T) {
	c := &Counter{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c.Count("concurrent counting of a sentence")
			}
		})
	}
	wg.Wait()
}

func BenchmarkCount(b *testing.B) {
	c := loaded(b)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 12345 times! ", 280)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Count(text)
	}
}

// Counting by lines gives what counting as a whole does.
func TestCount_Lines(t *testing.T) {
	c := loaded(t)
	encoder := c.codec.Load()
	parts := []string{"a", "Word", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", ".", "...", "'s", "1234", "你好", "\u00a0", "\u2028", "é", "{\"a\":1}", "<b>", "'", "\v", "\u0085"}
	random := rand.New(rand.NewSource(1))
	for range 3000 {
		var b strings.Builder
		for range random.Intn(12) {
			b.WriteString(parts[random.Intn(len(parts))])
		}
		text := b.String()
		want, err := encoder.Count(text)
		if got := c.Count(text); err != nil || got != want {
			t.Fatalf("%q: %d tokens by lines, %d as a whole, %v", text, got, want, err)
		}
	}
}
