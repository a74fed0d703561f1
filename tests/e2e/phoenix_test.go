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

// phoenix is a server that is killed at moments chosen by a seed and started
// again on the same data directory. The moments are counted in what can be
// seen from outside (ticks): frames read, pieces written by the model, requests
// that reach it, and places inside of tools.
type phoenix struct {
	t testing.TB
	s settings

	mu      sync.Mutex
	rng     *rand.Rand
	p       *process
	dying   bool
	life    int // counts the starts
	budget  int // kills left
	left    int // ticks to the next kill
	kills   int
	effects int // kills between an effect and its report
	changed chan struct{}
}

func newPhoenix(t testing.TB, seed int64, s settings) *phoenix {
	x := &phoenix{t: t, s: s, rng: rand.New(rand.NewSource(seed)), changed: make(chan struct{})}
	x.s.Gate = filepath.Join(t.TempDir(), "gate")
	l, err := net.Listen("unix", x.s.Gate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go x.gate(l)
	x.p = start(t, x.s)
	t.Cleanup(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.p.kill(t)
	})
	return x
}

// gate stands around the effects of tools: it lets them pass, or has the
// process killed there.
func (x *phoenix) gate(l net.Listener) {
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
			if x.tick(weight) {
				if after {
					x.mu.Lock()
					x.effects++
					x.mu.Unlock()
				}
				conn.Read(make([]byte, 1)) // until the process is dead
				return
			}
			conn.Write([]byte{1})
		}()
	}
}

// allow gives the phoenix n more deaths.
func (x *phoenix) allow(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.budget, x.left = n, 1+x.rng.Intn(60)
}

// tick counts what was seen; true means that the process is being killed.
func (x *phoenix) tick(weight int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dying {
		return true
	}
	if x.left -= weight; x.left > 0 || x.budget == 0 {
		return false
	}
	x.budget--
	x.dying = true
	go x.revive()
	return true
}

// revive kills the process and starts it again; now and then it kills the new
// one as soon as it serves.
func (x *phoenix) revive() {
	for {
		x.p.kill(x.t)
		p, err := launch(x.s)
		x.mu.Lock()
		x.kills++
		if err != nil {
			x.t.Errorf("start again: %v", err)
			x.mu.Unlock()
			return
		}
		x.p = p
		if x.budget > 0 && x.rng.Intn(5) == 0 {
			x.budget--
			x.mu.Unlock()
			continue
		}
		x.dying, x.left = false, 5+x.rng.Intn(90)
		x.life++
		close(x.changed)
		x.changed = make(chan struct{})
		x.mu.Unlock()
		return
	}
}

// client waits until the server lives and gives a client of it.
func (x *phoenix) client(ctx context.Context) (client, int, error) {
	for {
		x.mu.Lock()
		c, life, dying, changed := x.p.client(), x.life, x.dying, x.changed
		x.mu.Unlock()
		if !dying {
			return c, life, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c, life, context.Cause(ctx)
		}
	}
}

// died tells whether the process has ended since that life began, or is about to.
func (x *phoenix) died(life int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dying || x.life != life
}
