//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"refold/tests/bench/load"
)

// reference is the server that the whole product is held against; its figures
// were measured once, on this kind of machine (its single-binary edition, the
// same instant scripted model).
func reference(what string) string { return "the reference: " + what }

func thought(n int) string {
	return fmt.Sprintf(`{"thought":"Part %d holds nothing unusual.","next_thought_needed":true,"thought_number":%d,"total_thoughts":5}`, n+1, n+1)
}

// model serves an instant model of a number of rounds.
func (t *T) model(rounds int) string {
	url, stop, err := load.Model(rounds, "thinking", thought)
	t.check(err)
	t.Cleanup(stop)
	return url
}

// turns measures agent turns of five rounds over HTTP with the product as a
// process of its own; the model and the client share the machine with it.
func turns(t *T) {
	s := t.serve(t.TempDir(), t.model(5))
	time.Sleep(time.Second) // what a start still does in the background
	after := s.memory()
	const alone = 60
	var cpus samples
	one := alternate(func() float64 {
		before := s.cpu()
		p50 := timed(t, alone, func() error { return load.Turn(s.base()) })
		cpus = append(cpus, (s.cpu()-before)/alone)
		return p50
	})
	t.add("turn of 5 rounds, one at a time, p50", reference("105 ms"), one[0].median(), atMost(15, "ms"), "")
	t.add("server CPU for that turn", reference("49 to 56 ms"), cpus[1:].median(), atMost(6, "ms"), "")
	const width = 16
	many := alternate(func() float64 {
		const n = 160
		return n / t.together(n, width, func() error { return load.Turn(s.base()) }).Seconds()
	})
	t.add("16 such turns at a time, every step durable", reference("32 turns a second"), many[0].median(), atLeast(300, "/s"), "")
	p99, n := appendP99(t, s.metrics())
	t.add("appends of facts meanwhile, p99", "", p99, atMost(15, "ms"), "of %.0f, by /metrics", n)
	t.add("resident memory after start", reference("331 MiB"), after, atMost(60, "MiB"), "")
	t.add("resident memory after these turns", reference("431 MiB after 800"), s.memory(), atMost(120, "MiB"), "%d turns", 6*alone+6*160)
	starts := alternate(func() float64 {
		p := t.serve(t.TempDir(), "")
		defer p.kill()
		return p.ready.Seconds() * 1000
	})
	t.add("start of the process to ready", reference("900 ms"), starts[0].median(), atMost(300, "ms"), "")
}

// appendP99 reads the histogram of appends to sessions and runs: the bound below
// which 99 % are, within its bucket by proportion, in milliseconds.
func appendP99(t *T, metrics string) (ms, n float64) {
	buckets := map[float64]float64{}
	var bounds []float64
	for _, m := range regexp.MustCompile(`refold_append_seconds_bucket\{category="(?:run|session)",le="([^"]+)"\} (\S+)`).FindAllStringSubmatch(metrics, -1) {
		le, err := strconv.ParseFloat(m[1], 64)
		t.check(err)
		if _, ok := buckets[le]; !ok {
			bounds = append(bounds, le)
		}
		buckets[le] += number(m[2])
	}
	if len(bounds) == 0 {
		t.Fatal("/metrics has no refold_append_seconds")
	}
	n = buckets[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, le := range bounds {
		if buckets[le] >= 0.99*n {
			return 1000 * (lower + (le-lower)*(0.99*n-below)/(buckets[le]-below)), n
		}
		lower, below = le, buckets[le]
	}
	return 0, n
}

// deltas measures from the model's write of a piece of text until a reader of
// the feed has it. The pieces carry number and time.
func deltas(t *T) {
	const pieces = 200
	model, stop, err := load.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for i := range pieces {
			if !bytes.Contains(body.Bytes(), []byte(`"tools"`)) && i > 0 {
				break // a title
			}
			fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{"role":"assistant","content":"%d@%d "}}]}`+"\n\n", i, time.Now().UnixNano())
			if flush.Flush() != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.check(err)
	t.Cleanup(stop)
	s := t.serve(t.TempDir(), model)
	frames := 0
	var p50 samples
	r := alternate(func() float64 {
		session, err := load.Session(s.base())
		t.check(err)
		var late []time.Duration
		frames = 0
		t.check(load.Ask(s.base(), session, func(line []byte) {
			now := time.Now()
			data, ok := bytes.CutPrefix(line, []byte("data:"))
			var f struct {
				Type    string `json:"response_type"`
				Content string `json:"content"`
			}
			if !ok || json.Unmarshal(data, &f) != nil || f.Type != "answer" || f.Content == "" {
				return
			}
			frames++
			for piece := range strings.FieldsSeq(f.Content) {
				n, at, _ := strings.Cut(piece, "@")
				ns, err := strconv.ParseInt(at, 10, 64)
				if err != nil || n != strconv.Itoa(len(late)) {
					t.Errorf("piece %q where %d was due", piece, len(late))
				}
				late = append(late, now.Sub(time.Unix(0, ns)))
			}
		}))
		if len(late) != pieces {
			t.Fatalf("%d pieces came of %d", len(late), pieces)
		}
		p50 = append(p50, quantile(late, 0.5))
		return quantile(late, 0.95)
	})
	t.add("delay of a text delta, model to reader, p95", reference("bursts of 100 ms"), r[0].median(), atMost(5, "ms"),
		"p50 %.2f ms, in order, %d pieces in %d frames", p50[1:].median(), pieces, frames)
}

// lists is the rate of the list of sessions, beside the same with few stored.
func lists(t *T) {
	few := t.serve(t.TempDir(), "")
	for range 20 {
		_, err := load.Session(few.base())
		t.check(err)
	}
	many := t.serve(t.store.open(t), "")
	rate := func(s *server, cpu *samples) func() float64 {
		ask := pages(t, s.addr, "/api/v1/sessions?page_size=20")
		return func() float64 {
			before, began := s.cpu(), time.Now()
			r := ask()
			*cpu = append(*cpu, 1000*(s.cpu()-before)/(r*time.Since(began).Seconds()))
			return r
		}
	}
	var cpuFew, cpuMany samples
	r := alternate(rate(few, &cpuFew), rate(many, &cpuMany))
	t.add("GET /sessions, page of 20, 8 callers, 20 stored", reference("552 a second"), r[0].median(), atLeast(5000, "/s"), "%.0f µs of CPU each", cpuFew[1:].median())
	t.add(fmt.Sprintf("the same, %s stored", thousands(storedSessions)), reference("177 a second with 813"), r[1].median(), atLeast(5000, "/s"), "%.0f µs of CPU each", cpuMany[1:].median())
	t.add("the same, the one beside the other", "20 stored", ratio(r[1], r[0]), atLeast(0.9, "x"), "")
}

// pages gives a function that asks for a path with 8 callers for a second and
// gives how often a second.
func pages(t *T, addr, path string) func() float64 {
	const n = 8
	return func() float64 {
		clients := make([]*raw, n)
		for i := range clients {
			c, err := dial(addr, path)
			t.check(err)
			defer c.conn.Close()
			clients[i] = c
		}
		counts, errs := make([]int, n), make([]error, n)
		var wg sync.WaitGroup
		start := time.Now()
		for i, c := range clients {
			wg.Go(func() {
				for time.Since(start) < time.Second && errs[i] == nil {
					_, errs[i] = c.get()
					counts[i]++
				}
			})
		}
		wg.Wait()
		t.check(errors.Join(errs...))
		sum := 0
		for _, c := range counts {
			sum += c
		}
		return float64(sum) / time.Since(start).Seconds()
	}
}

// startUp is G16.
func startUp(t *T) {
	data := t.store.open(t)
	r := alternate(func() float64 {
		s := t.serve(filepath.Join(t.TempDir(), "data"), "")
		defer s.kill()
		return s.ready.Seconds() * 1000
	}, func() float64 {
		s := t.serve(data, "")
		defer s.kill()
		return s.ready.Seconds() * 1000
	})
	t.add("start to ready, empty directory", "", r[0].median(), atMost(300, "ms"), "")
	t.add(fmt.Sprintf("start to ready, %s events", thousands(storedEvents)), "", r[1].median(), atMost(1000, "ms"), "after kill -9")
}

// binarySize is the size of the binary, as make build makes it.
func binarySize(t *T) {
	info, err := os.Stat(t.binary)
	t.check(err)
	t.add("size of the binary", reference("266 MB"), float64(info.Size())/1e6, atMost(60, "MB"), "")
}
