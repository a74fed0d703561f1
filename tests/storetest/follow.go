package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"refold/domain/event"
)

// testTail is twenty writers with two hundred events each, and one reader that
// follows from the start: it sees each once, every stream in order.
func testTail(t *testing.T, s *suite) {
	const writers, each = 20, 200
	ctx := soon(t)
	var wg sync.WaitGroup
	errs := make([]error, writers)
	start := s.head()
	for w := range writers {
		st := s.stream("run")
		wg.Go(func() {
			for v := int64(0); v < each; {
				n := min(1+(v+int64(w))%3, each-v)
				if _, err := s.s.Append(ctx, st, event.Exactly(v), events(int(n))...); err != nil {
					errs[w] = err
					return
				}
				if v%7 == 0 { // and one that fails
					_, _ = s.s.Append(ctx, st, event.Exactly(v), events(1)...)
				}
				v += n
			}
		})
	}
	seen, next, total := map[string]bool{}, map[event.Stream]int64{}, 0
	err := event.Follow(ctx, s.s, start, s.mine(), func(batch []event.Raw, upTo event.Position) error {
		for _, r := range batch {
			if seen[r.ID] {
				return fmt.Errorf("event %s twice", r.ID)
			}
			seen[r.ID] = true
			next[r.Stream]++
			if r.Version != next[r.Stream] {
				return fmt.Errorf("version %d of %s where %d was due", r.Version, r.Stream, next[r.Stream])
			}
			if r.Position > upTo {
				return fmt.Errorf("event at %q in a batch up to %q", r.Position, upTo)
			}
			total++
		}
		if total == writers*each {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Fatalf("after %d of %d events: %v (writers: %v)", total, writers*each, err, errors.Join(errs...))
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	same(t, s.scan(start, s.mine(), 100), s.scan(start, s.mine(), 0))
}

var errDone = errors.New("done")

func (s *suite) head() event.Position {
	s.t.Helper()
	head, err := s.s.Head(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return head
}

func testRollbackGap(t *testing.T, s *suite) {
	st := s.stream("run")
	want := events(1)
	s.append(st, event.NoStream(), want...)
	at := s.head()
	for range 20 {
		fresh := events(3)
		s.refused(event.ErrInvalid, s.stream("run"), event.NoStream(), fresh[0], fresh[1], want[0])
		s.refused(event.ErrConflict, st, event.NoStream(), fresh...)
	}
	after := events(1)
	s.append(st, event.Exactly(1), after...)
	if err := s.s.Wait(soon(t), at); err != nil {
		t.Fatal(err)
	}
	same(t, s.scan(at, s.mine(), 0), after)
}

// testCheckpoint is a projector that is restarted: what counts is the position.
func testCheckpoint(t *testing.T, s *suite) {
	st := s.stream("run")
	handled, checkpoint := 0, s.head()
	restart := func() int {
		before := handled
		for {
			page, upTo, err := s.s.Scan(t.Context(), checkpoint, s.mine(), 2)
			if err != nil {
				t.Fatal(err)
			}
			handled += len(page)
			if upTo == checkpoint {
				return handled - before
			}
			checkpoint = upTo
		}
	}
	s.append(st, event.NoStream(), events(3)...)
	for range 50 {
		s.refused(event.ErrConflict, st, event.NoStream(), events(1)...)
	}
	s.append(st, event.Exactly(3), events(3)...)
	if n := restart(); n != 6 {
		t.Fatalf("handled %d events, want 6", n)
	}
	if n := restart(); n != 0 {
		t.Fatalf("the second restart handled %d events", n)
	}
}

func testWait(t *testing.T, s *suite) {
	st := s.stream("run")
	a := s.append(st, event.NoStream(), events(1)...)
	if err := s.s.Wait(soon(t), ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	head := s.head()
	if head < a.Position {
		t.Fatalf("head %q is before %q", head, a.Position)
	}
	if err := s.waitQuiet(ctx, head); !errors.Is(err, context.Canceled) {
		t.Fatalf("wait with an ended context: %v", err)
	}
	// Several wait; one append, also of a delta, wakes all.
	for i, category := range []string{"run", event.CategoryDelta} {
		head := s.head()
		errs := make(chan error, 5)
		for range cap(errs) {
			go func() { errs <- s.s.Wait(soon(t), head) }()
		}
		s.append(s.stream(category), event.NoStream(), events(1)...)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
}

// waitQuiet waits again when Wait returns early, as it may.
func (s *suite) waitQuiet(ctx context.Context, after event.Position) error {
	for {
		if err := s.s.Wait(ctx, after); err != nil {
			return err
		}
	}
}

func testFollow(t *testing.T, s *suite) {
	st := s.stream("run")
	first, second := events(3), events(2)
	s.append(st, event.NoStream(), first...)
	start := make(chan struct{})
	result := make(chan error, 1)
	go func() {
		<-start
		_, err := s.s.Append(t.Context(), st, event.Exactly(3), second...)
		result <- err
	}()
	var got []event.Raw
	err := event.Follow(soon(t), s.s, "", s.mine(), func(batch []event.Raw, _ event.Position) error {
		got = append(got, batch...)
		if len(got) == 3 && len(batch) > 0 {
			close(start)
		}
		if len(got) >= 5 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	same(t, got, append(first, second...))
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	err = event.Follow(ctx, s.s, s.head(), s.mine(), func([]event.Raw, event.Position) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("follow with a cancelled context: %v", err)
	}
}

func testCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	st := s.stream("run")
	_, err := s.s.Append(ctx, st, event.NoStream(), events(1)...)
	_, err2 := s.s.Read(ctx, st, 0, 0)
	s.append(s.stream("run"), event.NoStream(), events(1)...)
	_, _, err3 := s.s.Scan(ctx, "", s.mine(), 0)
	for i, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d with an ended context: %v", i, err)
		}
	}
	if got := s.read(st); len(got) != 0 {
		t.Fatalf("a cancelled append wrote %d events", len(got))
	}
	// Cancelled while others write: either not written, or written whole.
	var wg sync.WaitGroup
	streams := make([]event.Stream, 40)
	for i := range streams {
		streams[i] = s.stream("run")
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			_, err := s.s.Append(ctx, streams[i], event.NoStream(), events(3)...)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("append: %v", err)
			}
		})
		wg.Go(cancel)
	}
	wg.Wait()
	for _, st := range streams {
		if n := len(s.read(st)); n != 0 && n != 3 {
			t.Errorf("%d of 3 events written", n)
		}
	}
}

func testClose(t *testing.T, s *suite) {
	st := s.stream("run")
	s.append(st, event.NoStream(), events(1)...)
	head := s.head()
	waiting := make(chan error, 1)
	go func() { waiting <- s.waitQuiet(t.Context(), head) }()
	if err := s.s.Close(); err != nil {
		t.Fatal(err)
	}
	errs := []error{<-waiting}
	_, err := s.s.Append(t.Context(), st, event.Exactly(1), events(1)...)
	errs = append(errs, err)
	_, err = s.s.Read(t.Context(), st, 0, 0)
	errs = append(errs, err)
	_, _, err = s.s.Scan(t.Context(), "", event.Filter{}, 0)
	errs = append(errs, err)
	_, err = s.s.Head(t.Context())
	errs = append(errs, err, s.s.Wait(t.Context(), ""), s.s.Trim(t.Context(), s.stream(event.CategoryDelta)))
	for i, err := range errs {
		if !errors.Is(err, event.ErrUnavailable) {
			t.Errorf("call %d after close: %v", i, err)
		}
	}
	if err := s.s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
