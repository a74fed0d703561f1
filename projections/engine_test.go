package projections_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// patience only ends tests that hang.
const patience = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// told is a log of one session with one run.
func told(t testing.TB, facts ...run.Event) *book {
	b := newBook(t)
	b.session("s1", created, posted)
	b.run("r1", facts...)
	return b
}

func TestDocuments_Golden(t *testing.T) {
	b := told(t, clocks()...)
	d := &memory.Documents{}
	b.project(d, projections.All()...)
	var all strings.Builder
	for _, p := range projections.All() {
		all.WriteString(documents(t, d, p))
	}
	golden(t, "documents.golden", nil, all.String())
}

func TestP84_RebuildGivesTheSame(t *testing.T) {
	b := told(t, clocks()...)
	b.session("s2", session.SessionCreated{Session: "s2", At: at(50)}, session.SessionDeleted{At: at(51)})
	b.session("s3", session.SessionCreated{Session: "s3", At: at(52)}, attached("a1", "sha256:1"))
	b.installation()
	b.library()
	d := &memory.Documents{}
	e := b.project(d, projections.All()...)
	for _, p := range projections.All() {
		before := documents(t, d, p)
		events := 0
		if err := e.Rebuild(t.Context(), p, func(n int) { events = n }); err != nil {
			t.Fatal(err)
		}
		if after := documents(t, d, p); after != before || before == "" && p.Name != "approvals" && p.Name != "transfers" { // which has those that are owed only
			t.Fatalf("%s before:\n%s\nafter:\n%s", p.ID(), before, after)
		}
		if events == 0 {
			t.Fatal("nothing was folded")
		}
		if at, err := d.Checkpoint(t.Context(), p.ID()); err != nil || at != b.head() {
			t.Fatalf("at %q, %v", at, err)
		}
	}
}

// counting is a projection that counts what it folds.
func counting(n *atomic.Int64) projections.Projection {
	return projections.Projection{Name: "count", Version: 1, Filter: event.Filter{Categories: []string{session.Category}},
		Fold: func(v *projections.View, f projections.Fact) {
			n.Add(1)
			c := projections.Get[int](v, "", "acme", "n")
			if c == nil {
				c = new(int)
			}
			*c++
			projections.Put(v, "", "acme", "n", c, nil)
		}}
}

func TestP80_TheCheckpointIsAPosition(t *testing.T) {
	b := newBook(t)
	up := session.SessionUpdated{Title: "T", At: t0}
	b.session("s1", created, up, up)
	log := event.Log[session.Event]{Store: b.store, Codec: session.Codec, Category: session.Category}
	for range 50 {
		_, err := log.Append(t.Context(), "acme", "s1", event.Exactly(1), event.Envelope{Time: t0}, event.Fact[session.Event]{ID: "x", Event: up})
		if !errors.Is(err, event.ErrConflict) {
			t.Fatal(err)
		}
	}
	b.session("s1", up, up, up)
	var folded atomic.Int64
	d := &memory.Documents{}
	for start, want := range []int64{6, 6, 6} {
		b.project(d, counting(&folded))
		if folded.Load() != want {
			t.Fatalf("start %d: %d folded, want %d", start+1, folded.Load(), want)
		}
	}
	if got := documents(t, d, counting(&folded)); !strings.Contains(got, "\n6\n") {
		t.Fatal(got)
	}
}

func TestP83_PoisonEvent_StopsThatProjectionAlone(t *testing.T) {
	b := told(t, clocks()...)
	var healthy atomic.Int64
	broken := projections.Projection{Name: "broken", Version: 1, Filter: event.Filter{Categories: []string{session.Category}},
		Fold: func(v *projections.View, f projections.Fact) {
			if f.Version == 2 {
				panic("a bug")
			}
			n := 1
			projections.Put(v, "", "acme", "n", &n, nil)
		}}
	e := &projections.Engine{Store: b.store, Documents: &memory.Documents{}, Log: quiet, List: []projections.Projection{broken, counting(&healthy)}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	err := e.Await(ctx, broken, b.head())
	var why *projections.BrokenError
	if !errors.As(err, &why) || !strings.Contains(err.Error(), "a bug") || why.Position == "" {
		t.Fatalf("%v", err)
	}
	if err := e.Await(ctx, e.List[1], b.head()); err != nil || healthy.Load() != 2 {
		t.Fatalf("the other one stopped too: %v", err)
	}
	if got := e.Broken(); len(got) != 1 || got["broken@1"] == nil {
		t.Fatalf("%v", got)
	}
	cancel()
	<-done
	if got := documents(t, e.Documents, broken); got != "" {
		t.Fatalf("half a batch was stored: %s", got)
	}
}

func TestUnreadableEvent_StopsTheProjection(t *testing.T) {
	b := told(t)
	stream := event.Stream{Tenant: "acme", Category: session.Category, ID: "s9"}
	if _, err := b.store.Append(t.Context(), stream, event.NoStream(), event.New{ID: "new", Type: "SessionArchived", Schema: 1, Time: t0, Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	e := &projections.Engine{Store: b.store, Documents: &memory.Documents{}, Log: quiet, List: []projections.Projection{projections.Sessions}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	if err := e.Await(ctx, projections.Sessions, b.head()); !errors.Is(err, event.ErrUnknownType) {
		t.Fatal(err)
	}
	cancel()
	<-done
}

// rival commits a batch in the name of another process right before the first.
type rival struct {
	projections.Documents
	commit func()
}

func (r *rival) Commit(ctx context.Context, b projections.Batch) error {
	if r.commit != nil {
		f := r.commit
		r.commit = nil
		f()
	}
	return r.Documents.Commit(ctx, b)
}

func TestStaleCheckpoint_GoesOnFromTheOther(t *testing.T) {
	b := told(t, clocks()...)
	d := &memory.Documents{}
	var folded, theirs atomic.Int64
	r := &rival{Documents: d, commit: func() { b.project(d, counting(&theirs)) }}
	b.project(r, counting(&folded))
	if got := documents(t, d, counting(&folded)); theirs.Load() != 2 || !strings.Contains(got, "\n2\n") {
		t.Fatalf("%d by the rival; %s", theirs.Load(), got)
	}
}

// away fails the first reads of documents, as a store that is restarted does.
type away struct {
	projections.Documents
	left atomic.Int64
}

func (a *away) Get(ctx context.Context, keys ...projections.Key) ([]projections.Document, error) {
	if a.left.Add(-1) >= 0 {
		return nil, event.ErrUnavailable
	}
	return a.Documents.Get(ctx, keys...)
}

func TestUnavailableStore_IsAskedAgain(t *testing.T) {
	b := told(t, clocks()...)
	a := &away{Documents: &memory.Documents{}}
	a.left.Store(1)
	e := b.project(a, projections.Sessions)
	if len(e.Broken()) > 0 {
		t.Fatal("a store that is away is no broken fold")
	}
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	e := &projections.Engine{Documents: &memory.Documents{}, Log: quiet}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Await(ctx, projections.Sessions, "x"); !errors.Is(err, projections.ErrBehind) {
		t.Fatal(err)
	}
	if err := e.Await(ctx, projections.Sessions, ""); err != nil {
		t.Fatal(err)
	}
}

func TestTwoEngines_CountEachEventOnce(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	d := &memory.Documents{}
	var folded atomic.Int64
	p := counting(&folded)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var engines []*projections.Engine
	var wg sync.WaitGroup
	for range 2 {
		e := &projections.Engine{Store: b.store, Documents: d, Log: quiet, List: []projections.Projection{p}, Linger: time.Nanosecond}
		engines = append(engines, e)
		wg.Go(func() { e.Run(ctx) })
	}
	for n := range 200 {
		b.session("s1", session.SessionUpdated{Title: "T", At: t0})
		if n%20 == 0 { // both are at work while the log grows
			if err := engines[n/20%2].Await(ctx, p, b.head()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range engines {
		if err := e.Await(ctx, p, b.head()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
	if got := documents(t, d, p); !strings.Contains(got, "\n201\n") {
		t.Fatal(got)
	}
}

// Facts that change nothing in a view are not committed one by one, but for a
// view whose checkpoint is a promise.
func TestEngine_CommitsWhatChanges(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	store, docs := memory.New(), &memory.Documents{}
	plain := projections.Projection{Name: "plain", Version: 1, Filter: event.Filter{Categories: []string{"session"}}, Fold: func(*projections.View, projections.Fact) {}}
	exact := plain
	exact.Name, exact.Exact = "exact", true
	e := &projections.Engine{Store: store, Documents: docs, Log: quiet, List: []projections.Projection{plain, exact}}
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	log := event.Log[session.Event]{Store: store, Codec: session.Codec, Category: session.Category}
	for i := range 3 {
		recs, err := log.Append(ctx, "1", fmt.Sprint("s", i), event.NoStream(), event.Envelope{}, event.Fact[session.Event]{ID: fmt.Sprint("e", i), Event: session.SessionCreated{}})
		if err != nil {
			t.Fatal(err)
		}
		head := recs[0].Position
		for _, p := range e.List {
			if err := e.Await(ctx, p, head); err != nil {
				t.Fatal(err)
			}
		}
		at, err := docs.Checkpoint(ctx, exact.ID())
		if err != nil || at != head {
			t.Fatalf("exact is at %q of %q, %v", at, head, err)
		}
		if i == 2 { // the first facts may have been caught up with
			if at, err := docs.Checkpoint(ctx, plain.ID()); err != nil || at == head {
				t.Fatalf("plain is at %q, %v", at, err)
			}
		}
	}
	stop()
	<-done
}
