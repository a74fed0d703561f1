package e2e

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"refold/tests/scripted"
	"refold/tests/services"
)

// TestHugeResult: a tool that answers with 50 MB. The model, the readers and the
// message get a cut of it; the whole is kept, and paged.
func TestHugeResult(t *testing.T) {
	const size, at = 50 << 20, 40_000_000
	for _, store := range []string{"sqlite", "15", "18"} {
		t.Run(store, func(t *testing.T) {
			l := newLab(t, func(s *settings) {
				s.Volume = true
				if store != "sqlite" {
					s.Store = services.Postgres(t, store)
				}
			}, scripted.Say(call("c1", "flood", fmt.Sprintf(`{"bytes":%d}`, size))),
				scripted.Say(call("c2", "read_tool_result", fmt.Sprintf(`{"call_id":"c1","offset":%d,"limit":270}`, at))), say("Read."))
			id := l.session(t)
			frames := l.chat(t, id, "q").rest(t)
			checkFeed(t, frames)
			if n := len(wire(frames)); n > 200_000 || shown(frames, "answer") != "Read." {
				t.Errorf("the feed has %d bytes: %s", n, tail(wire(frames), 1000))
			}
			reqs := l.model.Requests()
			if len(reqs) != 3 {
				t.Fatalf("%d model requests", len(reqs))
			}
			if n := len(reqs[2].Body); n > 200_000 {
				t.Errorf("a request of %d bytes", n)
			}
			page := reqs[2].Last("tool")
			line := func(n int) string { return fmt.Sprintf("line %09d of the flood\n", n) }
			if n := at / len(line(0)); !strings.Contains(page, line(n+1)+line(n+2)) || !strings.Contains(page, fmt.Sprintf("of %d", size)) {
				t.Errorf("the page: %s", page)
			}
			if n := len(l.do(t, "GET", "/api/v1/messages/"+id+"/load", nil).body); n > 200_000 {
				t.Errorf("the messages have %d bytes", n)
			}
		})
	}
}

var question = regexp.MustCompile(`q\d{5}`)

// TestLongConversation: hundreds of turns load, page by page, and are answered.
func TestLongConversation(t *testing.T) {
	const turns = 500
	l := newLab(t, func(s *settings) { s.Rate, s.ChatRate, s.Volume = "off", "off", true })
	l.model.Always(func(r scripted.Request) scripted.Reply {
		return say("Answer to ", question.FindString(r.Last("user")))(r)
	})
	id := l.session(t)
	for n := range turns {
		frames := l.chat(t, id, fmt.Sprintf("q%05d", n)).rest(t)
		if shown(frames, "answer") != fmt.Sprintf("Answer to q%05d", n) {
			t.Fatalf("turn %d:\n%s", n, wire(frames))
		}
	}
	list := l.messages(t, id)
	if len(list) != min(2*turns, 1000) {
		t.Fatalf("%d messages of %d", len(list), 2*turns)
	}
	if last := list[len(list)-1]; last.Content != fmt.Sprintf("Answer to q%05d", turns-1) {
		t.Errorf("the last message is %q", last.Content)
	}
	if n := strings.Count(wire(l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", "").rest(t)), `"response_type":"complete"`); n != turns {
		t.Errorf("the session's feed has %d ends", n)
	}
	sizes := l.model.Requests()
	t.Logf("%d turns; the last request has %d messages in %d bytes", turns, len(sizes[len(sizes)-1].Messages), len(sizes[len(sizes)-1].Body))
}

// TestIdleStreams: many readers of one session that nothing happens in.
func TestIdleStreams(t *testing.T) {
	const streams, most = 2000, 48 << 10
	l := newLab(t, func(s *settings) { s.Rate, s.ChatRate, s.Volume = "off", "off", true }, say("News."))
	id := l.session(t)
	ctx, path := guarded(t), "/api/v1/sessions/"+id+"/events"
	before := l.p.memory(t)
	readers := make([]*reader, streams)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := i; k < streams; k += 8 {
				r, err := l.read(ctx, path, "")
				if err == nil {
					_, err = io.ReadFull(r.lines, make([]byte, len("retry: 2000\n\n")))
				}
				if err != nil {
					t.Errorf("stream %d: %v", k, err)
					return
				}
				readers[k] = r
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	each := (l.p.memory(t) - before) / streams
	if each > most {
		t.Errorf("a stream costs %d bytes", each)
	}
	// They are alive: all of them hear the same.
	want := wire(l.chat(t, id, "q").rest(t))
	for i := range 8 {
		all.Go(func() {
			for k := i; k < streams; k += 8 {
				var got []frame
				for len(got) == 0 || !got[len(got)-1].terminal() {
					f, err := readers[k].next()
					if err != nil {
						t.Errorf("stream %d: %v", k, err)
						return
					}
					got = append(got, f)
				}
				if wire(got) != want {
					t.Errorf("stream %d heard %s", k, firstDiff(want, wire(got)))
				}
				readers[k].close()
			}
		})
	}
	all.Wait()
	t.Logf("%d idle streams, %d bytes of resident memory each", streams, each)
}

// memory is what the process has in memory, in bytes.
func (p *process) memory(t testing.TB) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatalf("no VmRSS in %s", raw)
	return 0
}
