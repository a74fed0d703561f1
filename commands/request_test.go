package commands_test

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/key"
	"refold/domain/request"
	"refold/domain/session"
	"refold/infra/memory"
)

// again does a command twice as one idempotent request, as it is after a crash
// between the command and its answer: the second time nothing is written, and
// the answer is the first one.
func again[T any](t *testing.T, o *office, name string, do func(by commands.Caller) (T, error)) T {
	t.Helper()
	by := ada
	by.Reservation = "reservation of " + name
	before, _ := o.store.Head(t.Context())
	first, err := do(by)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	head, _ := o.store.Head(t.Context())
	if head == before {
		t.Fatalf("%s wrote nothing", name)
	}
	second, err := do(by)
	if err != nil {
		t.Fatalf("%s again: %v", name, err)
	}
	if now, _ := o.store.Head(t.Context()); now != head {
		t.Errorf("%s has an effect twice", name)
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%s: %+v, then %+v", name, first, second)
	}
	return first
}

func TestIdempotent_EveryCommandAgain(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	type made struct {
		id  string
		pos event.Position
	}
	s := again(t, o, "create", func(by commands.Caller) (made, error) {
		id, pos, err := o.CreateSession(ctx, by, "T", "")
		return made{id, pos}, err
	})
	again(t, o, "update", func(by commands.Caller) (event.Position, error) { return o.UpdateSession(ctx, by, s.id, "T2", "") })
	post := func(busy string) func(by commands.Caller) (commands.Posted, error) {
		return func(by commands.Caller) (commands.Posted, error) {
			return o.Send(ctx, by, commands.PostMessage{Session: s.id, Query: "?", Agent: "a"}, busy)
		}
	}
	first := again(t, o, "post", post(""))
	if first.Run == "" || first.Run == first.Message {
		t.Fatalf("%+v", first)
	}
	steered := again(t, o, "steer", post(commands.BusySteer))
	queued := again(t, o, "enqueue", post(commands.BusyEnqueue))
	if !steered.Steered || steered.Run != first.Run || !queued.Queued {
		t.Fatalf("%+v %+v", steered, queued)
	}
	again(t, o, "withdraw", func(by commands.Caller) (event.Position, error) {
		return o.WithdrawQueued(ctx, by, s.id, queued.Message)
	})
	// The second time the run in progress is that of the message itself.
	displacing := again(t, o, "interrupt", post(commands.BusyInterrupt))
	again(t, o, "stop", func(by commands.Caller) (event.Position, error) { return o.StopRun(ctx, by, s.id, displacing.Run, "u") })
	again(t, o, "delete", func(by commands.Caller) (event.Position, error) { return o.DeleteSession(ctx, by, s.id) })

	again(t, o, "tenant", func(by commands.Caller) (int64, error) {
		n, _, err := o.CreateTenant(ctx, by, "Acme", "")
		return n, err
	})
	k := again(t, o, "key", func(by commands.Caller) (commands.CreatedKey, error) {
		made, err := o.CreateKey(ctx, by, key.Grant{Name: "k", FullAccess: true})
		if made.Token != "" && !strings.HasPrefix(made.Token, "sk-"+made.Lookup) {
			t.Errorf("token %q of %q", made.Token, made.Lookup)
		}
		made.Token = "" // shown once
		return made, err
	})
	again(t, o, "grant", func(by commands.Caller) (event.Position, error) {
		_, pos, err := o.UpdateKey(ctx, by, k.Number, key.Grant{Name: "k", Capabilities: []string{"chat"}})
		return pos, err
	})
	again(t, o, "revoke", func(by commands.Caller) (event.Position, error) { return o.RevokeKey(ctx, by, k.Number) })
}

func TestIfMatch(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id := o.opened()
	stale, present := ada, ada
	stale.Versions, present.Versions = []int64{7}, []int64{9, 1}
	head, _ := o.store.Head(ctx)
	_, updated := o.UpdateSession(ctx, stale, id, "x", "")
	_, deleted := o.DeleteSession(ctx, stale, id)
	_, missing := o.UpdateSession(ctx, stale, "none", "x", "")
	if now, _ := o.store.Head(ctx); !errors.Is(updated, commands.ErrChanged) || !errors.Is(deleted, commands.ErrChanged) || !errors.Is(missing, session.ErrNotFound) || now != head {
		t.Fatal(updated, deleted, missing)
	}
	if _, err := o.UpdateSession(ctx, present, id, "x", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := o.UpdateSession(ctx, present, id, "y", ""); !errors.Is(err, commands.ErrChanged) {
		t.Fatal(err)
	}
}

// One of many that reserve the same key at the same time wins, on any number of
// processes: the append decides.
func TestReserve_OneWins(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	var wg sync.WaitGroup
	out := make([]commands.Reservation, 20)
	for i := range out {
		wg.Go(func() {
			var err error
			if out[i], err = o.Reserve(ctx, ada, "k", "f", "p"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	won := 0
	for _, r := range out {
		if r.New {
			won++
		}
		if r.Reserved.Reservation != out[0].Reserved.Reservation {
			t.Fatal("two reservations")
		}
	}
	if won != 1 {
		t.Fatalf("%d won", won)
	}
	if _, err := o.Reserve(ctx, ada, "k", "other", "p"); !errors.Is(err, request.ErrOther) {
		t.Fatal(err)
	}
	bob := ada
	bob.Principal = "bob"
	if r, err := o.Reserve(ctx, bob, "k", "other", "p"); err != nil || !r.New {
		t.Fatal("principals share keys", err)
	}
	stream, reservation := out[0].Stream, out[0].Reserved.Reservation
	for _, status := range []int{201, 500} {
		got, err := o.Answer(ctx, ada, stream, request.RequestAnswered{Reservation: reservation, Status: status})
		if err != nil || got.Status != 201 {
			t.Fatalf("%+v %v", got, err)
		}
	}
	o.Now = func() time.Time { return t0.Add(request.Retention) }
	if r, err := o.Reserve(ctx, ada, "k", "other", "p"); err != nil || !r.New || r.Answer != nil {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestUseKey_OnceAnHour(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	for range 3 {
		if err := o.UseKey(ctx, 1, "l"); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := o.Keys.Load(ctx, "system", key.UseID("l", t0), 0)
	if err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
}
