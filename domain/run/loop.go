package run

import (
	"crypto/sha256"
	"fmt"
)

// loop remembers the last rounds by what was called and what came back. It
// detects an agent that goes in circles: each single call succeeds, so nothing
// else would stop it before the round limit.
type loop struct {
	rounds []fingerprint // the newest last, at most loopMemory
	told   bool
}

type fingerprint struct{ calls, results [32]byte }

const (
	loopMemory     = 12 // three times the longest cycle
	loopTellAfter  = 3  // equal rounds until the model is told
	loopStuckAfter = 5  // equal rounds until the rounds are ended
	loopCycle      = 4  // longest cycle that is looked for
	loopCycleTimes = 3  // times that a cycle must be seen
)

type verdict int

const (
	loopFine verdict = iota
	loopTell
	loopStuck
)

// add gives the memory with one more round.
func (l loop) add(calls []Call) loop {
	c, r := sha256.New(), sha256.New()
	for _, call := range calls {
		fmt.Fprintf(c, "%s\n", call.Digest)
		if call.Result != nil {
			fmt.Fprintf(r, "%t %d %s %s\n", call.Result.Success, len(call.Result.Output), call.Result.Output, call.Result.Result)
		}
	}
	f := fingerprint{}
	c.Sum(f.calls[:0])
	r.Sum(f.results[:0])
	rounds := l.rounds
	if len(rounds) >= loopMemory {
		rounds = rounds[len(rounds)-loopMemory+1:]
	}
	return loop{rounds: append(append([]fingerprint(nil), rounds...), f), told: l.told}
}

// verdict looks at the newest rounds.
func (l loop) verdict() verdict {
	n := len(l.rounds)
	equal := 1
	for equal < n && l.rounds[n-1-equal] == l.rounds[n-1] {
		equal++
	}
	if equal >= loopStuckAfter {
		return loopStuck
	}
	for size := 2; size <= loopCycle; size++ {
		if l.cycles(size) {
			return loopStuck
		}
	}
	if equal >= loopTellAfter && !l.told {
		return loopTell
	}
	return loopFine
}

// cycles tells whether the newest rounds are one cycle of a size, seen enough
// times, of rounds that are not all the same.
func (l loop) cycles(size int) bool {
	need := size * loopCycleTimes
	if len(l.rounds) < need {
		return false
	}
	tail := l.rounds[len(l.rounds)-need:]
	same := true
	for i := range tail {
		if tail[i] != tail[i%size] {
			return false
		}
		same = same && tail[i] == tail[0]
	}
	return !same
}
