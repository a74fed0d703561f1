package knowledge_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"refold/domain/knowledge"
)

// FuzzDocument turns bytes into a sequence of commands, as a careless world
// would send them, and checks after each of them what must always hold.
func FuzzDocument(f *testing.F) {
	r := rand.New(rand.NewSource(1))
	for n := range 400 {
		b := make([]byte, 20+n)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &world{t: t, data: data[:min(len(data), 2000)], now: t0}
		w.send(knowledge.Add{DocumentAdded: []knowledge.DocumentAdded{file(), page(), typed(false), typed(true), entry()}[w.pick(5)]})
		for len(w.data) > 0 && len(w.facts) < 300 {
			w.step()
		}
		w.settle()
	})
}

type world struct {
	t     *testing.T
	data  []byte
	now   time.Time
	state knowledge.State
	facts []knowledge.Event
}

func (w *world) pick(n int) int {
	if len(w.data) == 0 {
		return 0
	}
	b := w.data[0]
	w.data = w.data[1:]
	return int(b) % n
}

func (w *world) moment() knowledge.Moment {
	m := knowledge.Moment{Now: w.now, Self: []string{"w1", "w1", "w2"}[w.pick(3)], Sole: w.pick(8) == 0}
	if w.pick(8) == 0 {
		m.Gone = []string{"w1"}
	}
	return m
}

func (w *world) recipe() knowledge.Recipe {
	r := recipe
	r.Vectors = []string{"m", "m2", ""}[w.pick(3)]
	r.Chunking.Size = 512 + w.pick(2)
	return r
}

func (w *world) step() {
	switch w.pick(20) {
	default:
		w.work()
	case 10:
		w.now = w.now.Add([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[w.pick(4)])
	case 11:
		w.send(knowledge.Cancel{Now: w.now})
	case 12:
		w.send(knowledge.Reparse{ReparseRequested: knowledge.ReparseRequested{Recipe: w.recipe(), Force: w.pick(3) == 0, At: w.now}})
	case 13:
		r := knowledge.ContentReplaced{Content: knowledge.Blob{Digest: fmt.Sprint("sha256:", w.pick(3)), Size: 1}, Recipe: w.recipe(), Draft: w.pick(4) == 0, At: w.now}
		if w.state.FAQ != nil {
			f := *w.state.FAQ
			f.Answers = []string{fmt.Sprint(w.pick(3))}
			r.FAQ = &f
		}
		w.send(knowledge.Replace{ContentReplaced: r})
	case 14:
		w.send(knowledge.Change{DocumentChanged: knowledge.DocumentChanged{Title: fmt.Sprint(w.pick(3)), Disabled: w.pick(2) == 0, At: w.now}})
	case 15:
		w.send(knowledge.SetTags{DocumentTagged: knowledge.DocumentTagged{Tags: []string{fmt.Sprint(w.pick(3))}, At: w.now}})
	case 16:
		i := w.pick(3)
		w.send(knowledge.EditChunk{ChunkEdited: knowledge.ChunkEdited{Index: i, Chunk: knowledge.ChunkID("d1", w.state.Indexed, i), Content: fmt.Sprint(w.pick(3)), Deleted: w.pick(4) == 0, At: w.now}})
	case 17:
		w.send(knowledge.Claim{Moment: w.moment(), Stage: []string{"fetch", "parse", "chunk", "embed", "index", "sync", "remove"}[w.pick(7)], Attempt: 1 + w.pick(3), Deadline: w.now.Add(time.Minute)})
	case 18:
		w.send(knowledge.RecordLost{Moment: w.moment(), Claim: w.state.Claims - w.pick(2)})
	case 19:
		if w.pick(4) == 0 {
			w.send(knowledge.Delete{DocumentDeleted: knowledge.DocumentDeleted{At: w.now}})
		}
	}
}

// work does what is due, or reports what is open.
func (w *world) work() {
	if c := w.state.Claim; c != nil && w.pick(4) > 0 {
		claim := c.Number - w.pick(6)/5
		if w.pick(4) == 0 {
			w.send(knowledge.RecordFailure{Claim: claim, Code: "x", Transient: w.pick(3) > 0, Moved: w.pick(4) == 0, Now: w.now})
			return
		}
		// The worker speaks of what it was given.
		s := w.state
		s.Revision = c.Revision
		w.send(knowledge.Record{Claim: claim, Event: result(s, c.Stage), Now: w.now})
		return
	}
	m := w.moment()
	for _, e := range knowledge.Due(w.state, m) {
		switch e := e.(type) {
		case knowledge.Do:
			w.send(knowledge.Claim{Moment: m, Stage: e.Stage, Attempt: e.Attempt, Deadline: w.now.Add(time.Minute)})
		case knowledge.Recover:
			w.send(knowledge.RecordLost{Moment: m, Claim: e.Claim})
		}
	}
}

func (w *world) send(c knowledge.Command) {
	events, next, err := knowledge.DecideAll(w.state, c)
	if err != nil {
		if len(events) > 0 {
			w.t.Fatalf("%T: facts and a refusal", c)
		}
		return
	}
	before := w.state
	w.state = next
	w.facts = append(w.facts, events...)
	for _, e := range events {
		if st, ok := e.(knowledge.StageStarted); ok {
			up := st.Stage == knowledge.StageSync || st.Stage == knowledge.StageRemove
			if before.Claim != nil || (before.Deleted || before.Draft) && st.Stage != knowledge.StageRemove || (before.Cancelled || before.Failed != nil) && !up {
				w.t.Fatalf("%s was granted in %+v", st.Stage, before)
			}
		}
	}
	switch c.(type) {
	case knowledge.Record, knowledge.RecordFailure, knowledge.RecordLost:
		if again, err := knowledge.Decide(w.state, c); err != nil || len(again) > 0 {
			w.t.Fatalf("%T told twice: %v, %v", c, again, err)
		}
	}
	w.check()
}

// check is what holds after every command.
func (w *world) check() {
	s := w.state
	var folded knowledge.State
	ends, revision, claims := map[int]int{}, 0, 0
	for _, e := range w.facts {
		folded = knowledge.Evolve(folded, e)
		switch e := e.(type) {
		case knowledge.Indexed:
			ends[e.Revision]++
		case knowledge.IngestionCancelled:
			ends[e.Revision]++
		case knowledge.StageFailed:
			if e.RetryAt.IsZero() && e.Code != knowledge.CodeSuperseded {
				ends[e.Revision]++
			}
		case knowledge.ContentReplaced:
			if e.Revision != revision+1 {
				w.t.Fatalf("revision %d after %d", e.Revision, revision)
			}
		case knowledge.StageStarted:
			if claims++; e.Number != claims {
				w.t.Fatalf("claim %d is numbered %d", claims, e.Number)
			}
		}
		revision = folded.Revision
	}
	if !reflect.DeepEqual(folded, s) {
		w.t.Fatal("a replay folds to another state")
	}
	for r, n := range ends {
		// One that is indexed can be indexed again only after it was removed as a draft, which begins another.
		if n > 1 {
			w.t.Fatalf("revision %d has %d ends", r, n)
		}
	}
	if s.Live() && ends[s.Revision] == 0 != !(s.Cancelled || s.Failed != nil || s.Indexed == s.Revision) {
		w.t.Fatalf("revision %d has %d ends: %+v", s.Revision, ends[s.Revision], s)
	}
	for _, m := range []knowledge.Moment{{Now: w.now, Self: "w1"}, {Now: w.now, Self: "w3", Sole: true}} {
		if len(knowledge.Due(s, m)) == 0 && knowledge.NextWake(s, m.Now).IsZero() && s.Open() {
			w.t.Fatalf("open, and nothing will ever move it: %+v", s)
		}
	}
	if !s.Open() && len(knowledge.Due(s, knowledge.Moment{Now: w.now.Add(1e6 * time.Hour), Self: "w3"})) > 0 {
		w.t.Fatal("settled, and yet something is due")
	}
	if p := s.Progress(); p < 0 || p > 100 || (p == 100) != (s.Indexed == s.Revision) {
		w.t.Fatalf("progress %d", p)
	}
}

// settle lets a diligent worker finish: then the index has what it must have.
func (w *world) settle() {
	for n := 0; w.state.Open(); n++ {
		if n > 100 {
			w.t.Fatalf("it does not end: %+v", w.state)
		}
		w.now = w.now.Add(time.Hour)
		if c := w.state.Claim; c != nil {
			w.send(knowledge.RecordLost{Moment: knowledge.Moment{Now: w.now, Self: "w9", Sole: true}, Claim: c.Number})
			continue
		}
		m := knowledge.Moment{Now: w.now, Self: "w9", Sole: true}
		e := knowledge.Due(w.state, m)[0].(knowledge.Do)
		w.send(knowledge.Claim{Moment: m, Stage: e.Stage, Attempt: e.Attempt, Deadline: w.now.Add(time.Minute)})
		w.send(knowledge.Record{Claim: w.state.Claims, Event: result(w.state, e.Stage), Now: w.now})
	}
	s := w.state
	if s.Deleted || s.Draft {
		if s.Indexed != 0 {
			w.t.Fatalf("gone, and yet in the index: %+v", s)
		}
	} else if s.Indexed != s.Revision && !s.Cancelled && s.Failed == nil || s.Indexed > 0 && s.Synced != s.Changes {
		w.t.Fatalf("%+v", s)
	}
}
