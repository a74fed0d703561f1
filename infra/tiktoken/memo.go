package tiktoken

import (
	"strings"
	"sync"
)

// What memo keeps: texts that many requests have in common, such as prompts,
// definitions of tools and their lines. A longer text is not worth its memory.
const (
	maxKnown   = 16 << 10
	knownBytes = 512 << 10 // of one generation
)

// memo remembers counts of texts. What is asked for again survives; the rest is
// forgotten with its generation. Safe for concurrent use.
type memo struct {
	mu         sync.Mutex
	young, old map[string]int
	bytes      int // of young
}

func (m *memo) get(text string) (n int, ok bool) {
	if len(text) > maxKnown {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok = m.young[text]; ok {
		return n, true
	}
	if n, ok = m.old[text]; ok {
		m.add(text, n)
	}
	return n, ok
}

func (m *memo) put(text string, n int) {
	if len(text) > maxKnown {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(text, n)
}

func (m *memo) add(text string, n int) {
	if m.bytes += len(text) + 64; m.young == nil || m.bytes > knownBytes {
		m.old, m.young, m.bytes = m.young, map[string]int{}, len(text)+64
	}
	m.young[strings.Clone(text)] = n // not a part of something larger
}
