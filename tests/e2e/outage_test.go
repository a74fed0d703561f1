package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"refold/tests/scripted"
	"refold/tests/services"
)

// ready asks a server until it is ready, or is not for a reason that has a part.
func (l *lab) ready(t testing.TB, part string) {
	t.Helper()
	ctx, last := guarded(t), ""
	for ctx.Err() == nil {
		a, err := l.try(ctx, "GET", "/readyz", nil)
		if err != nil {
			continue
		}
		var r struct {
			Status   string
			Problems map[string]string
		}
		if err := json.Unmarshal([]byte(a.body), &r); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		last = a.body
		if a.status == 200 && part == "" || a.status == 503 && part != "" && strings.Contains(r.Problems["store"], part) {
			return
		}
	}
	t.Fatalf("the server never said %q, at last %s", part, last)
}

// said waits until a server's log has a line with a part.
func (l *lab) said(t testing.TB, part string) {
	t.Helper()
	for ctx := guarded(t); !strings.Contains(l.p.log.String(), part); {
		if _, err := l.try(ctx, "GET", "/healthz", nil); err != nil {
			t.Fatalf("%v; the log never had %q", err, part)
		}
	}
}

// goOn reads a run to its end, from where a reader was; streams that end before
// are taken up again.
func (l *lab) goOn(t testing.TB, session, run string, frames []frame) []frame {
	t.Helper()
	for ctx := guarded(t); ctx.Err() == nil; {
		r, err := l.read(ctx, continued(session, run), frames[len(frames)-1].id)
		if err != nil {
			continue
		}
		frames = r.cutOff(frames)
		r.close()
		if frames[len(frames)-1].terminal() {
			return frames
		}
	}
	t.Fatalf("the run does not end:\n%s", wire(frames))
	return nil
}

// TestDatabaseGone: the database crashes in the middle of an answer, and of a
// tool with an effect, and stays away until the servers have noticed. What was
// done is on the record as soon as it is back; nothing is done twice.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	x, gate := newTrap(t), make(chan struct{})
	o := services.OwnPostgres(t, "15")
	a, b := newLabs(t, o.DSN, func(s *settings) { s.Gate = x.path },
		scripted.Say(call("c1", "ledger_append", `{"line":"L"}`)), held(gate, []string{"One ", "two "}, []string{"three."}))
	id := a.session(t)
	a.ready(t, "")
	b.ready(t, "")
	r := a.chat(t, id, "q")

	x.caught(t, "before L")
	x.release(t)
	x.caught(t, "after L")
	o.Stop("immediate")
	x.release(t)
	a.ready(t, "PostgreSQL")
	b.ready(t, "PostgreSQL")
	c := a.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "and?"})
	if c.status != 503 {
		t.Errorf("a message while the database is away: HTTP %d %s", c.status, c.body)
	}
	o.Start()
	frames := r.until(t, isAnswer("two "))
	run := frames[0].text("assistant_message_id")
	if n := count(t, a.s.Ledger)["L"]; n != 1 || strings.Contains(wire(frames), "approval") {
		t.Errorf("the ledger has the line %d times:\n%s", n, wire(frames))
	}
	a.ready(t, "")
	b.ready(t, "")

	owner, _ := mover(t, "ModelCallStarted", a, b)
	o.Stop("immediate")
	close(gate)
	owner.said(t, `"msg":"move a run"`)
	owner.ready(t, "PostgreSQL")
	o.Start()
	frames = r.cutOff(frames)
	if !frames[len(frames)-1].terminal() {
		frames = b.goOn(t, id, run, frames)
	}
	m := sameEverywhere(t, id, run, frames, a, b)
	if m.Content != "One two three." || m.Outcome != "completed" {
		t.Errorf("stored %+v, feed:\n%s", m, wire(frames))
	}
	a.ready(t, "")
	b.ready(t, "")
	for _, l := range []*lab{a, b} {
		a.model.Push(say("Next."))
		if next := l.chat(t, id, "and now?").rest(t); shown(next, "answer") != "Next." {
			t.Errorf("the next turn: %s", wire(next))
		}
	}
}

// TestDiskFull: the disk is full in the middle of an answer. The run waits for
// room and ends, with all that the model has said.
func TestDiskFull(t *testing.T) {
	dir, gate := smallDisk(t, "24m"), make(chan struct{})
	l := newLab(t, func(s *settings) { s.Data = filepath.Join(dir, "data") }, held(gate, []string{"One ", "two "}, []string{"three ", strings.Repeat("long ", 100_000), "end."}))
	id := l.session(t)
	l.ready(t, "")
	r := l.chat(t, id, "q")
	frames := r.until(t, isAnswer("two "))
	run := frames[0].text("assistant_message_id")
	filler := fill(t, dir)
	close(gate)
	l.said(t, `"msg":"move a run"`)
	l.ready(t, "the disk is full; free some space")
	a := l.do(t, "POST", "/api/v1/sessions", map[string]any{"title": strings.Repeat("x", 200)})
	if a.status != 503 && a.status != 507 || !strings.Contains(a.body, "full") {
		t.Errorf("a session on a full disk: HTTP %d %s", a.status, a.body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	frames = r.cutOff(frames)
	if !frames[len(frames)-1].terminal() {
		frames = l.goOn(t, id, run, frames)
	}
	m := sameEverywhere(t, id, run, frames, l)
	if want := "One two three " + strings.Repeat("long ", 100_000) + "end."; m.Content != want || m.Outcome != "completed" {
		t.Errorf("stored %d bytes, %s, feed:\n%s", len(m.Content), m.Outcome, tail(wire(frames), 3000))
	}
	l.ready(t, "")
	l.p.kill(t)
	if out := refold(t, "--data", l.s.Data, "--json", "rebuild"); out.code != 0 || strings.Contains(out.stdout, `"equal":false`) {
		t.Errorf("rebuild: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

// smallDisk gives a folder that is a file system of its own.
func smallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	var as []string
	if os.Getuid() != 0 {
		as = []string{"sudo", "-n"}
	}
	do := func(args ...string) error {
		args = append(append([]string(nil), as...), args...)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Logf("%q: %v: %s", args, err, out)
		}
		return err
	}
	if err := do("mount", "-t", "tmpfs", "-o", "mode=777,size="+size, "tmpfs", dir); err != nil {
		t.Fatal("a small disk needs the right to mount one")
	}
	t.Cleanup(func() { do("umount", "-l", dir) })
	return dir
}

// fill fills a disk to the last byte with a file.
func fill(t testing.TB, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{1 << 16, 4096, 1} {
		for b := make([]byte, n); err == nil; {
			_, err = f.Write(b)
		}
		err = nil
	}
	return f.Name()
}
