package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// bar shows on a terminal how far long work is. Elsewhere it shows nothing.
type bar struct {
	mu    sync.Mutex
	w     io.Writer // nil = nothing is shown
	what  string
	total int
	n     int
}

func (e *env) newBar(what string, total int) *bar {
	b := &bar{what: what, total: total}
	if terminal(e.err) && !e.cli.JSON {
		b.w = e.err
	}
	b.draw()
	return b
}

// drawn tells whether somebody sees the bar.
func (b *bar) drawn() bool { return b.w != nil }

// step counts one more, after say has printed lines about it.
func (b *bar) step(say func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	say()
	b.n++
	b.draw()
}

const barWidth = 30

func (b *bar) draw() {
	if b.w == nil || b.total == 0 {
		return
	}
	full := min(b.n, b.total) * barWidth / b.total
	fmt.Fprintf(b.w, "\r[%s%s] %d of %d %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), b.n, b.total, b.what)
}

func (b *bar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// end leaves the bar where it is and goes on below it.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil && b.total > 0 {
		fmt.Fprintln(b.w)
	}
}
