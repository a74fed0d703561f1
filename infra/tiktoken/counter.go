// Package tiktoken counts tokens with cl100k_base. The vocabulary is part of the
// binary: nothing is fetched, ever. It may import domain, handlers and its one
// outside package. Start reading at Counter.
package tiktoken

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"refold/handlers"
)

// maxPiece is how many bytes are encoded at a time. The time that the split
// into words takes grows with the square of a run of white space, so a text is
// cut first; each cut adds a token or two at most.
const maxPiece = 2048

// Counter counts tokens. The zero value is ready: until the vocabulary is
// loaded, and if it can't be, it gives a careful estimate. Safe for concurrent use.
type Counter struct {
	Log *slog.Logger // told once if estimates are given; nil = nobody

	load   sync.Once
	loaded chan struct{}
	codec  atomic.Pointer[codec.Codec]
	told   sync.Once
	known  memo
	make   func() (*codec.Codec, error) // nil = the embedded vocabulary
}

var _ handlers.TokenCounter = (*Counter)(nil)

// Load loads the vocabulary in the background (about 10 ms, 4 MB), once. The
// channel is closed when that is over, with or without success.
func (c *Counter) Load() <-chan struct{} {
	c.load.Do(func() {
		c.loaded = make(chan struct{})
		go func() {
			defer close(c.loaded)
			// Loading is code of others over generated data: a fault in it must
			// cost precision only.
			defer func() {
				if p := recover(); p != nil {
					c.tell("the tokenizer broke down while it was loaded", p)
				}
			}()
			build := c.make
			if build == nil {
				build = func() (*codec.Codec, error) { return codec.NewCl100kBase(), nil }
			}
			made, err := build()
			if err == nil && made == nil {
				err = errors.New("no vocabulary")
			}
			if err != nil {
				c.tell("the tokenizer can't be loaded", err)
				return
			}
			c.codec.Store(made)
		}()
	})
	return c.loaded
}

// Count implements handlers.TokenCounter.
func (c *Counter) Count(text string) int {
	if text == "" {
		return 0
	}
	encoder := c.codec.Load()
	if encoder == nil {
		select {
		case <-c.Load():
			if encoder = c.codec.Load(); encoder == nil {
				return Estimate(text)
			}
		default:
			c.tell("the tokenizer is still being loaded", nil)
			return Estimate(text)
		}
	}
	if !utf8.ValidString(text) {
		return Estimate(text)
	}
	if n, ok := c.known.get(text); ok {
		return n
	}
	total := 0
	for rest := text; rest != ""; {
		line := rest[:lineEnd(rest)]
		rest = rest[len(line):]
		n, ok := 0, false
		if len(line) < len(text) {
			n, ok = c.known.get(line)
		}
		if !ok {
			n = c.count(encoder, line)
			c.known.put(line, n)
		}
		total += n
	}
	c.known.put(text, total)
	return total
}

// lineEnd gives the length of the first line with its end, and of those after it
// up to one that begins with something else than white space: no token goes on
// from there. So texts that have lines in common are counted once in these.
func lineEnd(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\n' {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(text[i+1:]); !unicode.IsSpace(r) {
			return i + 1
		}
	}
	return len(text)
}

func (c *Counter) count(encoder *codec.Codec, text string) (total int) {
	for rest := text; rest != ""; {
		piece := rest[:cut(rest)]
		rest = rest[len(piece):]
		n, err := encoder.Count(piece)
		if err != nil {
			c.tell("the tokenizer failed on a text", err)
			n = Estimate(piece)
		}
		total += n
	}
	return total
}

// tell logs why estimates are given, once.
func (c *Counter) tell(why string, cause any) {
	c.told.Do(func() {
		if c.Log != nil {
			c.Log.Warn(why+"; token counts are estimates for now", "cause", cause)
		}
	})
}

// cut gives the length of the next piece: at most maxPiece bytes, before a space
// if there is one in its second half, never inside a character.
func cut(text string) int {
	if len(text) <= maxPiece {
		return len(text)
	}
	for i := maxPiece; i > maxPiece/2; i-- {
		if text[i] == ' ' && text[i-1] != ' ' {
			return i
		}
	}
	i := maxPiece
	for !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// Estimate is a careful count without a vocabulary: four ASCII bytes make a
// token, rounded up, and so does each other character; those beyond the first
// plane (emoji, rare Han) make two.
func Estimate(text string) int {
	ascii, others := 0, 0
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			ascii++
		case r > 0xFFFF:
			others += 2
		default:
			others++
		}
	}
	return (ascii+3)/4 + others
}
