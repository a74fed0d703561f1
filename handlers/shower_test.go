package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
)

func TestA18_ThoughtReader(t *testing.T) {
	for raw, want := range map[string]string{
		`{"thought":"plain"}`: "plain",
		`{ "n" : 1, "thought" : "a\n\t\"b\" \\ \/ 长 \u957f"}`: "a\n\t\"b\" \\ / 长 长",
		`{"thought":"\ud83d\ude00 ok"}`:                       "😀 ok",
		`{"thought":"\ud83d no half"}`:                        "\ufffd no half",
		`{"thought":"x\ud83d"}`:                               "x\ufffd",
		`{"other":"thought","x":"no"}`:                        "",
		`{"x":{"thought":"inner"},"thought":"outer"}`:         "outer",
		`{"thought":"cut off`:                                 "cut off",
		`{"thought":7,"thought":"second"}`:                    "second",
		`{"thoug\u0068t":"escaped key","thought":"real"}`:     "real",
		`{"thought":"once","thought":"twice"}`:                "once",
		`[{"thought":"in a list"}]`:                           "",
		``:                                                    "",
	} {
		for cut := range len(raw) + 1 { // split at each byte
			var r thoughtReader
			if got := r.write(raw[:cut]) + r.write(raw[cut:]); want != "x\ufffd" && got != want {
				t.Fatalf("%s split at %d: %q, want %q", raw, cut, got, want)
			}
		}
		var r thoughtReader
		got := ""
		for i := range len(raw) {
			got += r.write(raw[i : i+1])
		}
		if got != want {
			t.Fatalf("%s byte by byte: %q, want %q", raw, got, want)
		}
	}
}

// stream is as much of a store as the delta writer needs: one stream.
type stream struct {
	event.Store
	mu  sync.Mutex
	raw []event.Raw
}

func (s *stream) Append(_ context.Context, name event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(len(s.raw)) != expect.Version() {
		return event.Appended{}, event.ErrConflict
	}
	for _, e := range events {
		s.raw = append(s.raw, event.Raw{New: e, Stream: name, Version: int64(len(s.raw) + 1)})
	}
	return event.Appended{Version: int64(len(s.raw))}, nil
}

func (s *stream) Read(_ context.Context, _ event.Stream, after int64, _ int) ([]event.Raw, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw[after:], nil
}

// appended waits until everything that a writer has taken is appended.
func appended(w *deltaWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy || w.timer != nil {
		w.idle.Wait()
	}
}

// shows feeds deltas to a shower and gives what it showed, and what it stored.
func shows(t *testing.T, deltas ...ModelDelta) ([]run.Segment, []run.Segment) {
	t.Helper()
	log := event.Log[run.Delta]{Store: &stream{}, Codec: run.DeltaCodec, Category: event.CategoryDelta}
	n := 0
	id := func() string { n++; return fmt.Sprint("e", n) }
	env := func() event.Envelope { return event.Envelope{Time: time.Unix(0, 0)} }
	w := &shower{began: time.Unix(0, 0), now: func() time.Time { return time.Unix(2, 0) }, tool: true, out: newDeltaWriter(log, "t", "r.1", id, env)}
	for _, d := range deltas {
		if err := w.delta(context.Background(), d); err != nil {
			t.Fatal(err)
		}
	}
	w.close(context.Background())
	appended(w.out)
	recs, err := log.Load(context.Background(), "t", "r.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var stored []run.Segment
	for _, r := range recs {
		stored = append(stored, r.Event.Segments...)
	}
	return w.segments, stored
}

func cuts(segments []run.Segment) string {
	var out []string
	for _, s := range segments {
		out = append(out, strings.TrimSpace(s.Kind+" "+s.Text+s.ID+" "+s.Name))
	}
	return strings.Join(out, "|")
}

func begun(index int, id, name, text string) ModelDelta {
	return ModelDelta{Call: &ModelCallDelta{Index: index, ID: id, Name: name, Text: text}}
}

func TestShower(t *testing.T) {
	for _, c := range []struct {
		name   string
		deltas []ModelDelta
		want   string
	}{
		{"thinking closes before the answer", []ModelDelta{{Reasoning: "h"}, {Reasoning: "m"}, {Content: "A"}, {Content: "B"}}, "t h|t m|c|a A|a B"},
		{"thinking alone is closed at the end", []ModelDelta{{Reasoning: "hm"}}, "t hm|c"},
		{"a blank block of thinking is not shown", []ModelDelta{{Reasoning: " \n"}, {Content: "A"}}, "a A"},
		{"blank start of thinking is not shown", []ModelDelta{{Reasoning: "\n"}, {Reasoning: " x"}, {Reasoning: " "}, {Content: "A"}}, "t x|t|c|a A"},
		{"a call is announced once", []ModelDelta{{Content: "Let me."}, begun(0, "c1", "now", "{"), begun(0, "c1", "now", "}")}, "a Let me.|p c1 now"},
		{"a call closes thinking", []ModelDelta{{Reasoning: "hm"}, begun(0, "c1", "now", "")}, "t hm|c|p c1 now"},
		{"ids of one reply are unique", []ModelDelta{begun(0, "c1", "now", ""), begun(1, "c1", "now", "")}, "p c1 now|p c1_2 now"},
		{"a call without a name is not shown", []ModelDelta{begun(0, "c1", "", ""), begun(0, "c1", "now", "")}, "p c1 now"},
		{"the thinking tool is shown while it is written", []ModelDelta{begun(0, "c1", "thinking", `{"thou`), begun(0, "", "", `ght":"fir`), begun(0, "", "", `st","n":1}`)},
			"p c1 thinking|k fir|k st"},
		{"NUL and broken text", []ModelDelta{{Content: "a\x00b\xff"}}, "a a␀b�"},
	} {
		shown, stored := shows(t, c.deltas...)
		if got := cuts(shown); got != c.want {
			t.Fatalf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := cuts(stored); got != c.want {
			t.Fatalf("%s: stored %s, want %s", c.name, got, c.want)
		}
	}
}

func TestShower_HasALimit(t *testing.T) {
	w := &shower{began: time.Unix(0, 0), now: time.Now, out: newDeltaWriter(event.Log[run.Delta]{Store: &stream{}, Codec: run.DeltaCodec, Category: event.CategoryDelta},
		"t", "r.1", func() string { return "e" }, func() event.Envelope { return event.Envelope{} })}
	w.out.err = errors.New("disk is full") // nothing is stored; the reply itself is bounded
	var err error
	for n := 0; err == nil; n++ {
		if n > maxReplyText {
			t.Fatal("no limit")
		}
		err = w.delta(context.Background(), ModelDelta{Content: "\x01"}) // the smallest pieces, and the longest as JSON
	}
	var failed *ModelError
	if !errors.As(err, &failed) || failed.Code != "bad_response" {
		t.Fatal(err)
	}
	text, _, shown := run.Compact(w.segments)
	_, _, data, err := run.Codec.Encode(run.Thought{Text: text, Shown: shown})
	if err != nil || len(data) > event.MaxPayload {
		t.Fatalf("%d bytes can't be stored, %v", len(data), err)
	}
}

func TestDeltaWriter_Fenced(t *testing.T) {
	store := &stream{}
	log := event.Log[run.Delta]{Store: store, Codec: run.DeltaCodec, Category: event.CategoryDelta}
	n := 0
	env := func() event.Envelope { return event.Envelope{Time: time.Unix(0, 0)} }
	w := newDeltaWriter(log, "t", "r.1", func() string { n++; return fmt.Sprint("e", n) }, env)
	ctx := context.Background()
	if err := w.add(ctx, run.Segment{Kind: run.SegAnswer, Text: "A"}); err != nil {
		t.Fatal(err)
	}
	appended(w)
	if _, err := log.Append(ctx, "t", "r.1", event.Exactly(1), env(), event.Fact[run.Delta]{ID: "close", Event: run.Delta{Closed: true}}); err != nil {
		t.Fatal(err)
	}
	if err := w.add(ctx, run.Segment{Kind: run.SegAnswer, Text: "B"}); err != nil {
		t.Fatal(err) // it does not know yet
	}
	appended(w)
	if err := w.add(ctx, run.Segment{Kind: run.SegAnswer, Text: "C"}); !errors.Is(err, errFenced) {
		t.Fatal(err)
	}
	recs, err := log.Load(ctx, "t", "r.1", 0)
	if err != nil || len(recs) != 2 {
		t.Fatalf("%+v %v", recs, err)
	}
}

// A reply that is whole at once is shown by its closing fact: nothing is
// appended, now or later.
func TestDeltaWriter_AtOnce(t *testing.T) {
	store := &stream{}
	log := event.Log[run.Delta]{Store: store, Codec: run.DeltaCodec, Category: event.CategoryDelta}
	w := newDeltaWriter(log, "t", "r.1", func() string { return "e" }, func() event.Envelope { return event.Envelope{} })
	w.mu.Lock()
	w.waiting = append(w.waiting, run.Segment{Kind: run.SegAnswer, Text: "A"})
	w.timer = time.AfterFunc(time.Hour, func() { w.write(t.Context()) })
	w.mu.Unlock()
	if w.end() {
		t.Fatal("it says that pieces were shown")
	}
	w.write(t.Context()) // a timer that could not be stopped any more
	if recs, err := log.Load(t.Context(), "t", "r.1", 0); err != nil || len(recs) > 0 {
		t.Fatalf("%+v %v", recs, err)
	}
}
