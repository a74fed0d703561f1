package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/tests/scripted"
	"refold/tests/services"
)

// newLabs starts two servers on one database, with one model.
func newLabs(t testing.TB, dsn string, change func(*settings), steps ...scripted.Step) (a, b *lab) {
	t.Helper()
	a = newLab(t, func(s *settings) {
		s.Store, s.Rate, s.ChatRate = dsn, "off", "off"
		if change != nil {
			change(s)
		}
	}, steps...)
	return a, a.another(t)
}

// another starts one more server beside a lab's.
func (l *lab) another(t testing.TB) *lab {
	t.Helper()
	b := &lab{model: l.model, s: l.s}
	b.s.Data = filepath.Join(t.TempDir(), "data")
	b.up(t)
	return b
}

// cutOff reads what comes until the stream breaks.
func (r *reader) cutOff(frames []frame) []frame {
	for {
		f, err := r.next()
		if err != nil {
			return frames
		}
		frames = append(frames, f)
	}
}

// sameEverywhere checks that fresh readers see these frames, and one message, at
// every server.
func sameEverywhere(t testing.TB, session, run string, frames []frame, labs ...*lab) message {
	t.Helper()
	checkFeed(t, frames)
	var m message
	for i, l := range labs {
		if got := wire(l.watch(t, session, run, "").rest(t)); got != wire(frames) {
			t.Errorf("a fresh reader at server %d sees:\n%s", i, firstDiff(wire(frames), got))
		}
		m = l.message(t, session, run)
		if m.Content != shown(frames, "answer") {
			t.Errorf("server %d has %q, shown was %q", i, m.Content, shown(frames, "answer"))
		}
	}
	return m
}

// mover tells which of two servers has made the last claim of a kind.
func mover(t testing.TB, kind string, a, b *lab) (owner, other *lab) {
	t.Helper()
	db, err := pgx.Connect(guarded(t), a.s.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var claim struct{ Owner string }
	var raw []byte
	if err := db.QueryRow(guarded(t), "SELECT data FROM event WHERE type = $1 ORDER BY position DESC LIMIT 1", kind).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &claim); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*lab{{a, b}, {b, a}} {
		if strings.Contains(claim.Owner, fmt.Sprintf("-%d-", pair[0].p.cmd.Process.Pid)) {
			return pair[0], pair[1]
		}
	}
	t.Fatalf("the claim is of neither: %s", raw)
	return nil, nil
}

// TestHandover: a server ends in the middle of an answer, killed or told to. The
// other one finishes the answer, and the reader goes on there. Who was told to
// end hands back; nobody waits until it would be taken for gone.
func TestHandover(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			defer close(gate)
			a, b := newLabs(t, services.Postgres(t, "15"), func(s *settings) {
				s.Gone = 1200
				if !killed {
					s.Gone = int(time.Hour / time.Millisecond)
				}
			}, held(gate, []string{"One ", "two "}, nil))
			id := a.session(t)
			r := a.chat(t, id, "q")
			frames := r.until(t, isAnswer("two "))
			owner, other := mover(t, "ModelCallStarted", a, b)
			if owner == b { // the run need not be where its reader is
				r.close()
				r = b.watch(t, id, frames[0].text("assistant_message_id"), frames[len(frames)-1].id)
			}
			run := frames[0].text("assistant_message_id")
			a.model.Push(say("All ", "of ", "it."))
			if killed {
				owner.p.kill(t)
			} else if code := owner.p.term(t); code != 0 {
				t.Errorf("exit %d\n%s", code, owner.p.log)
			}
			frames = r.cutOff(frames)
			frames = append(frames, other.watch(t, id, run, frames[len(frames)-1].id).rest(t)...)
			m := sameEverywhere(t, id, run, frames, other)
			if m.Content != "All of it." || m.Outcome != "completed" || !strings.Contains(wire(frames), `"reason":"recovered"`) {
				t.Errorf("stored %+v, feed:\n%s", m, wire(frames))
			}
		})
	}
}

// TestDecisionRace: an approval that was asked for by a server which is dead is
// decided by many at once, at two others. One decision counts.
func TestDecisionRace(t *testing.T) {
	t.Parallel()
	a, b := newLabs(t, services.Postgres(t, "15"), func(s *settings) { s.Gone = 1200 }, mail(`{"to":"a@example.test"}`), say("Done."))
	id := a.session(t)
	r := a.chat(t, id, "q")
	approval, frames := asked(t, r)
	r.close()
	a.p.kill(t)
	c := a.another(t)
	ctx, decisions := guarded(t), []string{"approve", "reject"}
	var won [2]atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		at := []*lab{b, c}[i/2%2]
		all.Go(func() {
			x, err := at.try(ctx, "POST", resolvePath(approval), map[string]any{"decision": decisions[i%2]})
			switch {
			case err == nil && x.status == 200:
				won[i%2].Add(1)
			case err != nil || x.status != 400 || !strings.Contains(x.body, "already_resolved"):
				t.Errorf("HTTP %d %s %v", x.status, x.body, err)
			}
		})
	}
	all.Wait()
	approved, rejected := won[0].Load(), won[1].Load()
	if approved+rejected != 1 {
		t.Errorf("%d approvals and %d rejections were taken", approved, rejected)
	}
	frames = append(frames, b.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
	sameEverywhere(t, id, r.run(), frames, b, c)
	if n := count(t, a.s.Ledger)[`{"to":"a@example.test"}`]; int64(n) != approved {
		t.Errorf("approved %d times, sent %d times", approved, n)
	}
	if n := strings.Count(wire(frames), `"response_type":"tool_approval_resolved"`); n != 1 || shown(frames, "answer") != "Done." {
		t.Errorf("%d resolutions:\n%s", n, wire(frames))
	}
}

// TestStopElsewhere: a stop that reaches the server which does not move the run
// ends the model's stream and every reader's, and keeps what they saw.
func TestStopElsewhere(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	a, b := newLabs(t, services.Postgres(t, "15"), nil, held(gate, []string{"One ", "two "}, []string{"three."}))
	id := a.session(t)
	r := a.chat(t, id, "q")
	frames := r.until(t, isAnswer("two "))
	run := frames[0].text("assistant_message_id")
	beside := b.watch(t, id, run, "")
	_, other := mover(t, "ModelCallStarted", a, b)
	other.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": run}).same(t, 200, `{"success":true,"message":"Generation stopped"}`)
	frames = append(frames, r.rest(t)...)
	if got := wire(beside.rest(t)); got != wire(frames) {
		t.Errorf("the reader at the other server saw:\n%s", firstDiff(wire(frames), got))
	}
	m := sameEverywhere(t, id, run, frames, a, b)
	if last := frames[len(frames)-1]; last.Type != "stop" || m.Outcome != "stopped" || m.Content != "One two " {
		t.Errorf("ended with %s, stored %+v", last.raw, m)
	}
	select {
	case <-a.model.Requests()[0].Gone:
	case <-guarded(t).Done():
		t.Error("the model still writes")
	}
}
