//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// cost is what a side costs, in microseconds (and allocations) for each round of
// the agent.
type cost struct{ Wall, CPU, Allocs float64 }

// beside runs the benchmark beside Eino, which is a module of its own, and gives
// what its rounds of measurement gave.
func beside(t *T, width int) (out []besideSample) {
	dir := filepath.Join(t.root, "tests", "bench", "eino")
	modfile := filepath.Join(t.dir, "go.mod") // a copy, which may be brought up to what the product needs now
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		t.check(err)
		t.check(os.WriteFile(filepath.Join(t.dir, name), raw, 0o600))
	}
	cmd := exec.Command("go", "run", "-mod=mod", "-modfile", modfile, ".", "-width", fmt.Sprint(width), "-rounds", fmt.Sprint(rounds))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+t.dir)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("the module beside Eino: %v: %s", err, tail(stderr.String()))
	}
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var s besideSample
		if err := dec.Decode(&s); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
}

// besideSample is what one round of measurement gave.
type besideSample struct {
	Eino, Refold                        cost
	EinoTask, RefoldTask, Appends, Sync float64
}

func pick(all []besideSample, f func(besideSample) float64) (out samples) {
	for _, s := range all {
		out = append(out, f(s))
	}
	return out
}

// besideEino is G10: tasks of ten rounds with a tool each.
func besideEino(t *T) {
	for _, width := range []int{16, 64} {
		all := beside(t, width)
		for _, m := range []struct {
			name, unit string
			limit      float64
			of         func(cost) float64
		}{{"CPU", " µs", 1, func(c cost) float64 { return c.CPU }}, {"wall", " µs", 1, func(c cost) float64 { return c.Wall }},
			{"allocations", "", 0.6, func(c cost) float64 { return c.Allocs }}} {
			ours, theirs := pick(all, func(s besideSample) float64 { return m.of(s.Refold) }), pick(all, func(s besideSample) float64 { return m.of(s.Eino) })
			t.add(fmt.Sprintf("%s of a round, %d runs at a time", m.name, width), "Eino's ReAct agent", ratio(ours, theirs), atMost(m.limit, "x"), "%.0f / %.0f%s", ours.median(), theirs.median(), m.unit)
		}
	}
}

// oneBesideEino is G11.
func oneBesideEino(t *T) {
	all := beside(t, 1)
	ours := pick(all, func(s besideSample) float64 { return s.RefoldTask })
	limit := pick(all, func(s besideSample) float64 { return s.EinoTask + 1.3*s.Appends*s.Sync })
	eino, appends, sync := pick(all, func(s besideSample) float64 { return s.EinoTask }), pick(all, func(s besideSample) float64 { return s.Appends }), pick(all, func(s besideSample) float64 { return s.Sync })
	t.add("wall of one run of 10 rounds", "Eino + 1.3 x fsyncs x fdatasync", ratio(ours, limit), atMost(1, "x"),
		"%.2f ms / %.2f ms + 1.3 x %.0f x %.2f ms", ours.median()/1000, eino.median()/1000, appends.median(), sync.median()/1000)
}
