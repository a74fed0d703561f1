//go:build unix

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"refold/tests/scripted"
	"refold/tests/services"
)

// TestLostDeltas: a database that crashes may forget the last moment of what
// readers were shown. They are told so, and the end is the same for everybody.
func TestLostDeltas(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	tell(t, o.DSN, "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
	pieces, gate := make(chan struct{}), make(chan struct{})
	text := []string{"One ", "two ", "three ", "four ", "five "}
	var deltas, rest []scripted.Delta
	for _, w := range text {
		deltas = append(deltas, scripted.Text(w), scripted.Gate(pieces))
	}
	for range 8_000 { // so many that some come after the first of them was appended
		rest = append(rest, scripted.Text("more "))
	}
	a, b := newLabs(t, o.DSN, nil, scripted.Say(append(append(deltas, scripted.Gate(gate)), rest...)...))
	whole := strings.Join(text, "") + strings.Repeat("more ", len(rest))
	a.model.Always(say(whole)) // if the call is made again
	id := a.session(t)
	a.ready(t, "")
	b.ready(t, "")
	r := a.chat(t, id, "q")
	var frames []frame
	for _, w := range text { // each in an append of its own
		frames = append(frames, r.until(t, isAnswer(w))...)
		pieces <- struct{}{}
	}
	run := frames[0].text("assistant_message_id")
	// Whatever else the servers append would bring the deltas to the disk.
	for _, l := range []*lab{a, b} {
		if err := l.p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	o.Stop("immediate")
	o.Start()
	for _, l := range []*lab{a, b} {
		if err := l.p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	ask := "SELECT count(*)::int FROM event e JOIN feed f ON f.id = e.feed WHERE f.category = 'delta'"
	if n := number(t, o.DSN, ask); n == len(text) {
		t.Errorf("the test did not test: all of the deltas are there")
	}
	a.ready(t, "")
	b.ready(t, "")
	close(gate)
	frames = r.cutOff(frames)
	if !frames[len(frames)-1].terminal() {
		frames = b.goOn(t, id, run, frames)
	}
	m := sameEverywhere(t, id, run, frames, a, b)
	if m.Content != whole || m.Outcome != "completed" {
		t.Errorf("stored %+v, feed:\n%s", m, tail(wire(frames), 3000))
	}
	t.Logf("%d model requests", len(a.model.Requests()))
}
