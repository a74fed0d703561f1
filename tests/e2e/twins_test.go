package e2e

import (
	"bufio"
	"context"
	"math/rand"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// twins are two servers on one database. At moments chosen by a seed one of them
// is killed, now and then both, and started again some moments later. Moments
// are counted as with the phoenix.
type twins struct {
	t testing.TB
	s [2]settings

	mu       sync.Mutex
	rng      *rand.Rand
	p        [2]*process
	up       [2]bool
	life     [2]int // counts the deaths
	reviving bool
	budget   int // kills left
	left     int // ticks to what happens next
	kills    int
	both     int // moments at which neither lived
	effects  int // kills between an effect and its report
	changed  chan struct{}
}

// newTwins starts two servers with their own data directories.
func newTwins(t testing.TB, seed int64, s settings) *twins {
	x := &twins{t: t, rng: rand.New(rand.NewSource(seed)), changed: make(chan struct{})}
	t.Cleanup(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.budget = 0
		for _, p := range x.p {
			if p != nil {
				p.kill(t)
			}
		}
	})
	for side := range x.p {
		x.s[side] = s
		x.s[side].Data, x.s[side].Gate = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "gate")
		l, err := net.Listen("unix", x.s[side].Gate)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go x.gate(l, side)
		p, err := launch(x.s[side])
		if err != nil {
			t.Fatalf("start the server: %v", err)
		}
		x.p[side], x.up[side] = p, true
	}
	return x
}

// gate stands around the effects of one side's tools.
func (x *twins) gate(l net.Listener, side int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return
			}
			after := line[:6] == "after "
			weight := 2
			if after {
				weight = 8 // the interesting place
			}
			if x.at(side, weight, after) {
				conn.Read(make([]byte, 1)) // the process is dead
				return
			}
			conn.Write([]byte{1})
		}()
	}
}

// allow gives the twins n more deaths.
func (x *twins) allow(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.budget = n
}

// tick counts what was seen of either side.
func (x *twins) tick(weight int) bool { return x.at(-1, weight, false) }

// at counts what was seen of a side, -1 for either; true means that this side is
// dead.
func (x *twins) at(side, weight int, effect bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if side >= 0 && !x.up[side] {
		return true
	}
	if x.left -= weight; x.left > 0 || x.reviving {
		return false
	}
	switch {
	case !x.up[0] || !x.up[1]:
		x.reviving = true
		go x.revive()
		return false
	case x.budget == 0:
		return false
	}
	x.budget--
	victim := side
	if victim < 0 {
		victim = x.rng.Intn(2)
	}
	x.left = 1 + x.rng.Intn(80)
	if effect {
		x.effects++
	}
	x.kill(victim)
	if x.budget > 0 && x.rng.Intn(6) == 0 {
		x.budget--
		x.both++
		x.kill(1 - victim)
		x.reviving = true
		go x.revive()
	}
	return side >= 0
}

func (x *twins) kill(side int) {
	x.up[side] = false
	x.life[side]++
	x.kills++
	x.p[side].kill(x.t)
}

// revive starts what is down.
func (x *twins) revive() {
	x.mu.Lock()
	down := [2]bool{!x.up[0], !x.up[1]}
	x.mu.Unlock()
	for side, d := range down {
		if !d {
			continue
		}
		p, err := launch(x.s[side])
		x.mu.Lock()
		if err != nil {
			x.t.Errorf("start again: %v", err)
		} else {
			x.p[side], x.up[side] = p, true
		}
		close(x.changed)
		x.changed = make(chan struct{})
		x.mu.Unlock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reviving, x.left = false, 5+x.rng.Intn(150)
}

// client gives a client of a side that lives, of this one if it does.
func (x *twins) client(ctx context.Context, side int) (client, int, int, error) {
	for {
		x.mu.Lock()
		if !x.up[side] && x.up[1-side] {
			side = 1 - side
		}
		c, life, up, changed := x.p[side].client(), x.life[side], x.up[side], x.changed
		x.mu.Unlock()
		if up {
			return c, side, life, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c, side, life, context.Cause(ctx)
		}
	}
}

// settle waits until both live and nobody is killed any more.
func (x *twins) settle(ctx context.Context) error {
	x.allow(0)
	for {
		x.mu.Lock()
		done, changed := x.up[0] && x.up[1], x.changed
		if !done && !x.reviving {
			x.reviving = true
			go x.revive()
		}
		x.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// died tells whether a side was killed since it had lived that life.
func (x *twins) died(side, life int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.life[side] != life
}
