package sqlite

import (
	"fmt"
	"math/rand"
	"testing"

	"refold/domain/event"
)

// A read from memory gives what the stream has, or says that it can't.
func TestRecent_Read(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	var r recent
	all := map[event.Stream][]event.Raw{}
	var streams []event.Stream
	for i := range 40 {
		streams = append(streams, event.Stream{Tenant: "1", Category: []string{"run", event.CategoryDelta}[i%2], ID: fmt.Sprint(i / 2)})
	}
	fromMemory := 0
	for at := int64(1); at < 4*maxRecentEvents; at++ {
		s := streams[random.Intn(1+random.Intn(len(streams)))] // some often, some rarely
		e := recentEvent{at, event.Raw{Stream: s, Version: int64(len(all[s]) + 1)}}
		e.Data = fmt.Append(nil, at)
		all[s] = append(all[s], e.Raw)
		r.add([]recentEvent{e})
		if random.Intn(500) == 0 {
			gone := streams[2*random.Intn(len(streams)/2)+1]
			r.trim([]event.Stream{gone})
			delete(all, gone)
		}
		if random.Intn(20) > 0 {
			continue
		}
		s = streams[random.Intn(len(streams))]
		after, limit := int64(random.Intn(len(all[s])+3)), 1+random.Intn(10)
		got, ok := r.read(s, after, limit)
		if !ok {
			continue
		}
		fromMemory++
		want := all[s][min(int(after), len(all[s])):]
		want = want[:min(len(want), limit)]
		if len(got) != len(want) {
			t.Fatalf("%s after %d, at most %d: %d events, want %d", s, after, limit, len(got), len(want))
		}
		for i := range got {
			if got[i].Version != want[i].Version || string(got[i].Data) != string(want[i].Data) {
				t.Fatalf("%s after %d: event %d is %v, want %v", s, after, i, got[i], want[i])
			}
		}
	}
	if len(r.events) != maxRecentEvents || fromMemory < 100 {
		t.Fatalf("%d events are held, %d reads were answered", len(r.events), fromMemory)
	}
}
