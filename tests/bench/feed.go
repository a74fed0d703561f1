//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/app"
	"refold/projections"
)

// sink is a reader's connection that takes everything at once and counts frames.
type sink struct {
	header http.Header
	all    *atomic.Int64 // frames of all readers
	mine   int           // only its writer uses it
	rest   []byte        // of the last write: a frame may come in two
}

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) Flush()                           {}
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

var frameMark = []byte("\nevent:message\n")

func (s *sink) Write(b []byte) (int, error) {
	short := len(frameMark) - 1
	n := bytes.Count(append(s.rest, b[:min(short, len(b))]...), frameMark) + bytes.Count(b, frameMark)
	s.rest = append(s.rest[:0], b[max(0, len(b)-short):]...)
	s.mine += n
	s.all.Add(int64(n))
	return len(b), nil
}

// talk is a run whose model call is in progress, written into the log by hand.
type talk struct {
	session, run string
	store        event.Store
	version      int64 // of the transient stream
}

func (k *talk) begin() error {
	ctx, at := context.Background(), time.Now().UTC()
	env := event.Envelope{Time: at, Meta: event.Metadata{Correlation: k.session}}
	sessions := event.Log[session.Event]{Store: k.store, Codec: session.Codec, Category: session.Category}
	if _, err := sessions.Append(ctx, "1", k.session, event.NoStream(), env, event.Fact[session.Event]{ID: k.session + "-1", Event: session.SessionCreated{Session: k.session, Title: "T", At: at}},
		event.Fact[session.Event]{ID: k.session + "-2", Event: session.MessagePosted{Message: k.run + "-m", Run: k.run, Query: "Say something.", Agent: "smart-reasoning", At: at}}); err != nil {
		return err
	}
	runs := event.Log[run.Event]{Store: k.store, Codec: run.Codec, Category: run.Category}
	_, err := runs.Append(ctx, "1", k.run, event.NoStream(), env,
		event.Fact[run.Event]{ID: k.run + "-1", Event: run.RunStarted{Run: k.run, Session: k.session, UserMessage: k.run + "-m", Query: "Say something.", Language: "en", Limits: run.Limits{MaxRounds: 10}, At: at}},
		event.Fact[run.Event]{ID: k.run + "-2", Event: run.ModelCallStarted{Call: 1, Attempt: 1, Purpose: run.PurposeRound, Owner: "bench", Deadline: at.Add(time.Hour), At: at}})
	return err
}

// say appends pieces of text, one an event, as they come from a model.
func (k *talk) say(pieces int) error {
	deltas := event.Log[run.Delta]{Store: k.store, Codec: run.DeltaCodec, Category: event.CategoryDelta}
	for range pieces {
		if _, err := deltas.Append(context.Background(), "1", run.DeltaID(k.run, 1), event.Exactly(k.version), event.Envelope{Time: time.Now()},
			event.Fact[run.Delta]{ID: fmt.Sprint(k.run, "-d", k.version), Event: run.Delta{Segments: []run.Segment{{Kind: run.SegAnswer, Text: "a few words of the answer "}}}}); err != nil {
			return err
		}
		k.version++
	}
	return nil
}

// fanOut is G9: a thousand readers of one run, whose connections take everything
// at once. The baseline makes each frame once and hands it to every reader by a
// channel of his own.
func fanOut(t *T) {
	const subscribers, pieces = 1000, 300
	a, err := app.Open(context.Background(), app.Config{Data: t.TempDir(), Idle: true, Rate: "off", ChatRate: "off"})
	t.check(err)
	defer func() { t.check(a.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ours, theirs := &talk{session: "s-ours", run: "r-ours", store: a.Store}, &talk{session: "s-theirs", run: "r-theirs", store: a.Store}
	t.check(ours.begin())
	t.check(theirs.begin())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	handler := a.API.Handler()
	var got, gotBaseline atomic.Int64
	sinks := make([]*sink, subscribers)
	for i := range sinks {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/api/v1/sessions/"+ours.session+"/events?message_id="+ours.run, nil)
		r.RemoteAddr = "127.0.0.1:1"
		sinks[i] = &sink{header: http.Header{}, all: &got}
		readers.Go(func() { handler.ServeHTTP(sinks[i], r) })
	}
	for got.Load() < subscribers { // the frame of the question
		time.Sleep(time.Millisecond)
	}

	channels := make([]chan []byte, subscribers)
	for i := range channels {
		channels[i] = make(chan []byte, 4096)
		w := &sink{header: http.Header{}, all: &gotBaseline}
		control := http.NewResponseController(w)
		readers.Go(func() {
			for frame := range channels[i] {
				if control.SetWriteDeadline(time.Now().Add(30*time.Second)) != nil {
					return
				}
				_, _ = w.Write(frame)
				if control.Flush() != nil {
					return
				}
			}
		})
	}
	head, err := a.Store.Head(ctx)
	t.check(err)
	readers.Go(func() {
		defer func() {
			for _, c := range channels {
				close(c)
			}
		}()
		var feed projections.RunFeed
		recs, err := a.Commands.Runs.Load(ctx, "1", theirs.run, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, rec := range recs {
			feed.Fact(rec)
		}
		n := 0
		_ = event.Follow(ctx, a.Store, head, event.Filter{Categories: []string{event.CategoryDelta}}, func(batch []event.Raw, _ event.Position) error {
			for _, e := range batch {
				if run.DeltaRun(e.Stream.ID) != theirs.run {
					continue
				}
				rec, err := event.Record(run.DeltaCodec, e)
				if err != nil {
					return err
				}
				for _, f := range feed.Delta(n, rec.Event.Segments) {
					frame := fmt.Appendf(nil, "id:%s\nevent:message\ndata:%s\n\n", f.ID, f.Data)
					for _, c := range channels {
						c <- frame
					}
				}
				n += len(rec.Event.Segments)
			}
			return nil
		})
	})
	deliver := func(k *talk, got *atomic.Int64) func() float64 {
		return func() float64 {
			got.Store(0)
			start := time.Now()
			t.check(k.say(pieces))
			for got.Load() < subscribers*pieces {
				if time.Since(start) > time.Minute {
					t.Fatalf("%d deliveries of %d after a minute", got.Load(), subscribers*pieces)
				}
				time.Sleep(200 * time.Microsecond)
			}
			return subscribers * pieces / time.Since(start).Seconds()
		}
	}
	r := alternate(deliver(ours, &got), deliver(theirs, &gotBaseline))
	t.add("frames delivered to 1,000 subscribers", "a channel for each", ratio(r[0], r[1]), atLeast(1.7, "x"), "%.0f / %.0f thousand a second", r[0].median()/1000, r[1].median()/1000)
	stop()
	readers.Wait()
	lost := 0
	for _, s := range sinks {
		lost += max(0, 1+(rounds+1)*pieces-s.mine)
	}
	t.add("frames that one of them did not get", "", float64(lost), atMost(0, "lost"), "of %s", thousands((rounds+1)*subscribers*pieces))
	each, heard, _ := idle(t, subscribers)
	t.add("1,000 streams over HTTP, resident memory each", "", each, atMost(35, "KB"), "%d of them hear the next turn", heard)
}
