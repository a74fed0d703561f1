//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// row is a measurement of the table. It may add more than one line.
type row struct {
	name    string // what -run chooses by
	about   string
	measure func(t *T)
}

// line is a line of the table.
type line struct {
	Row        string  `json:"row"`
	Measured   string  `json:"measured"`
	Comparator string  `json:"comparator"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit"`
	Note       string  `json:"note,omitempty"`
	Target     string  `json:"target,omitempty"` // none where nobody has set one
	Holds      bool    `json:"holds"`            // true without a target
}

// goal is what a value must reach.
type goal struct {
	sign  string
	limit float64
	unit  string
	holds func(value, limit float64) bool
}

func atMost(limit float64, unit string) goal {
	return goal{"≤", limit, unit, func(v, l float64) bool { return v <= l }}
}

func atLeast(limit float64, unit string) goal {
	return goal{"≥", limit, unit, func(v, l float64) bool { return v >= l }}
}

// noTarget is the goal of a line that is there to be known.
func noTarget(unit string) goal {
	return goal{unit: unit, holds: func(float64, float64) bool { return true }}
}

func (g goal) String() string {
	if g.sign == "" {
		return ""
	}
	return g.sign + " " + quantity(g.limit, g.unit)
}

// quantity writes a number with its unit.
func quantity(v float64, unit string) string {
	var s string
	switch a := math.Abs(v); {
	case v == math.Trunc(v) || a >= 100:
		s = thousands(int64(math.Round(v)))
	case a >= 10:
		s = strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1:
		s = strconv.FormatFloat(v, 'f', 2, 64)
	default:
		s = strconv.FormatFloat(v, 'g', 2, 64)
	}
	if unit == "x" || strings.HasPrefix(unit, "/") {
		return s + unit
	}
	return s + " " + unit
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// T is what a row is measured with. Helpers of the tests take it for a
// testing.TB; of that it has only what they need.
type T struct {
	testing.TB // nil
	options
	lines []line
	row   string

	mu       sync.Mutex
	reason   string // why the row can't be measured
	cleanups []func()
}

// add adds a line: a value beside its goal. note says what the value is made of.
func (t *T) add(measured, comparator string, value float64, g goal, note string, args ...any) {
	t.lines = append(t.lines, line{Row: t.row, Measured: measured, Comparator: comparator, Value: value, Unit: g.unit,
		Note: fmt.Sprintf(note, args...), Target: g.String(), Holds: g.holds(value, g.limit)})
}

// Helper implements testing.TB.
func (t *T) Helper() {}

// Cleanup implements testing.TB.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir implements testing.TB.
func (t *T) TempDir() string {
	dir, err := os.MkdirTemp(t.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Error implements testing.TB: the row counts as not measured, and goes on.
func (t *T) Error(args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason == "" {
		t.reason = strings.TrimSpace(fmt.Sprintln(args...))
	}
}

// Errorf implements testing.TB.
func (t *T) Errorf(format string, args ...any) { t.Error(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB: the row ends here. Only the row's own goroutine
// may call it.
func (t *T) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf implements testing.TB.
func (t *T) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// Skip implements testing.TB: what can't be had can't be measured.
func (t *T) Skip(args ...any) { t.Fatal(args...) }

// Log implements testing.TB.
func (t *T) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (t *T) Logf(format string, args ...any) { t.Log(fmt.Sprintf(format, args...)) }

// check ends the row if there is an error.
func (t *T) check(err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// run measures a row and gives the reason if that was not possible.
func (t *T) run(r row) string {
	t.row = r.name
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for _, f := range slices.Backward(t.cleanups) {
				f()
			}
			t.cleanups = nil
		}()
		r.measure(t)
	}()
	<-ended
	reason := t.reason
	t.reason = ""
	return reason
}

// rounds is how often each side of a row is measured; the median counts.
const rounds = 5

// samples are what one side measured, a value a round.
type samples []float64

func (s samples) median() float64 {
	c := slices.Sorted(slices.Values(s))
	return c[len(c)/2]
}

// ratio is the median of the ratios of the rounds: what slows the machine down
// for a round slows both sides.
func ratio(a, b samples) float64 {
	r := make(samples, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r.median()
}

// alternate measures in turn, after a turn that is not counted.
func alternate(sides ...func() float64) []samples {
	out := make([]samples, len(sides))
	for round := range rounds + 1 {
		for i, f := range sides {
			if v := f(); round > 0 {
				out[i] = append(out[i], v)
			}
		}
	}
	return out
}

// quantile of durations, in milliseconds; it sorts them.
func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return math.NaN()
	}
	slices.Sort(d)
	return float64(d[int(float64(len(d)-1)*q)].Nanoseconds()) / 1e6
}

// write prints the table.
func write(w io.Writer, lines []line, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		for _, l := range lines {
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	cells := [][]string{{"row", "measured", "comparator", "value", "target", "verdict"}}
	for i, l := range lines {
		name := l.Row
		if i > 0 && lines[i-1].Row == name {
			name = ""
		}
		value, verdict := quantity(l.Value, l.Unit), "MISSED"
		if l.Note != "" {
			value += " (" + l.Note + ")"
		}
		switch {
		case l.Target == "":
			verdict = ""
		case l.Holds:
			verdict = "holds"
		}
		cells = append(cells, []string{name, l.Measured, l.Comparator, value, l.Target, verdict})
	}
	width := make([]int, len(cells[0]))
	for _, c := range cells {
		for i, text := range c {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	for _, c := range cells {
		var b strings.Builder
		for i, text := range c {
			b.WriteString(text)
			if i < len(c)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
