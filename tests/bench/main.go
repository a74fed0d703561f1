//go:build linux

// Command bench measures Refold beside bare comparators in the same run and
// prints a table with a line for every target. What counts are ratios: each side
// is measured five times, in turn, and the median stands. Start reading at rows.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

var rows = []row{
	{"G1", "append of one step by one caller, SQLite FULL", appendOne},
	{"G2", "appends of 16 and 256 callers", appendMany},
	{"G3", "eight readers of streams", readers},
	{"G4", "load and fold of a run of 1,000 events", loadAndFold},
	{"G5", "catch-up over the whole log", catchUp},
	{"G6", "append on PostgreSQL", appendPostgres},
	{"G7", "following PostgreSQL: delay, and nothing missed", followPostgres},
	{"G8", "wake-ups between processes", wakeUps},
	{"G9", "1,000 readers of a feed", fanOut},
	{"streams", "10,000 idle streams", idleStreams},
	{"loop", "the engine over HTTP beside a bare go-openai loop", besideLoop},
	{"G10", "the whole engine beside Eino, 16 and 64 runs at a time", besideEino},
	{"G11", "the whole engine beside Eino, one run", oneBesideEino},
	{"G12", "a round of 50 beside a round of 10", roundsCost},
	{"G13", "memory of a run that waits", parkedRun},
	{"G14", "counting tokens", counting},
	{"G15", "kill -9 under load", killed},
	{"G16", "start-up, empty and with a million events", startUp},
	{"turn", "agent turns of five rounds over HTTP", turns},
	{"delta", "delay of a text delta from the model to a reader", deltas},
	{"list", "GET /sessions with 20 and 100,000 stored", lists},
	{"long", "a session of 5,000 messages", longSession},
	{"ingest", "taking in 1,000 files", ingest},
	{"search", "search in 100,000 chunks", searches},
	{"binary", "size of the binary", binarySize},
}

type options struct {
	full   bool
	dir    string // for temporary files
	root   string // of the repository
	binary string // the product, built for this run
	store  *stored
}

func usage() {
	fmt.Fprint(os.Stderr, `bench measures Refold beside bare comparators and prints a table.

Examples:
  make bench                             # every row, about a quarter of an hour
  go run ./tests/bench -list             # what there is
  go run ./tests/bench -run G4,G10       # these rows only
  go run ./tests/bench -run G7 -full     # a million events, not 100,000
  go run ./tests/bench -run turn -json   # a JSON object for each line
  go run ./tests/bench -run G16 -stored /tmp/million
  go run ./tests/bench -run G4 -cpuprofile cpu.out

It ends with 0 if every row could be measured, also where a target is missed,
and with 1, the reason on standard error, where one could not.

Flags:
`)
	flag.PrintDefaults()
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == childLoader {
		loaderChild()
		return
	}
	flag.Usage = usage
	only := flag.String("run", "", "`rows` to measure, separated by commas; empty = all")
	list := flag.Bool("list", false, "list the rows and end")
	asJSON := flag.Bool("json", false, "print a JSON object for each line instead of the table")
	full := flag.Bool("full", false, "G7 with a million events")
	keep := flag.String("stored", "", "a `directory` for the store of a million events, made if it is empty and kept; empty = made anew")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to a `file`")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected %q; rows are chosen with -run\n", flag.Arg(0))
		os.Exit(2)
	}
	if *list {
		for _, r := range rows {
			fmt.Printf("%-8s %s\n", r.name, r.about)
		}
		return
	}
	chosen, err := choose(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
	ok := bench(chosen, *asJSON, *full, *keep)
	pprof.StopCPUProfile()
	if !ok {
		os.Exit(1)
	}
}

func choose(names string) ([]row, error) {
	if names == "" {
		return rows, nil
	}
	var out []row
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return strings.EqualFold(r.name, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q; -list shows them", name)
		}
		out = append(out, rows[i])
	}
	return out, nil
}

// bench measures rows and prints the table; false if one could not be measured.
func bench(chosen []row, asJSON, full bool, keep string) bool {
	// The user's own settings must not reach the processes that are measured.
	for _, name := range []string{"REFOLD_DATA", "REFOLD_STORE", "REFOLD_CONFIG", "REFOLD_ADDR", "REFOLD_API_KEY", "REFOLD_MODEL", "REFOLD_MODEL_URL",
		"REFOLD_MODEL_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "CI"} {
		os.Unsetenv(name)
	}
	dir, err := os.MkdirTemp("", "refold-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return false
	}
	defer os.RemoveAll(dir)
	interrupted := make(chan os.Signal, 1)
	o := options{full: full, dir: dir, binary: filepath.Join(dir, "refold")}
	if o.root, err = prepare(o.binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return false
	}
	o.store = &stored{dir: keep}
	if keep == "" {
		o.store.dir = filepath.Join(dir, "stored")
	}
	began, before := time.Now(), busy()
	res := &result{}
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		res.fail("interrupted")
		res.print(asJSON, before)
		os.RemoveAll(dir) // what a row has started ends with this process
		os.Exit(1)
	}()
	for _, r := range chosen {
		t := &T{options: o}
		fmt.Fprintf(os.Stderr, "%-8s %s ...", r.name, r.about)
		start := time.Now()
		reason := t.run(r)
		fmt.Fprintf(os.Stderr, " %.1f s\n", time.Since(start).Seconds())
		res.add(t.lines)
		if reason != "" {
			res.fail(r.name + " could not be measured: " + reason)
		}
	}
	fmt.Fprintf(os.Stderr, "all in %.0f s\n\n", time.Since(began).Seconds())
	return res.print(asJSON, before)
}

// result is what was measured so far. Safe for concurrent use.
type result struct {
	mu     sync.Mutex
	lines  []line
	failed []string
}

func (r *result) add(lines []line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, lines...)
}

func (r *result) fail(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, reason)
}

// print prints the table and what could not be measured; true if all could.
func (r *result) print(asJSON bool, before string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := write(os.Stdout, r.lines, asJSON); err != nil {
		r.failed = append(r.failed, err.Error())
	}
	held, targets := 0, 0
	for _, l := range r.lines {
		if l.Target == "" {
			continue
		}
		targets++
		if l.Holds {
			held++
		}
	}
	if !asJSON {
		fmt.Printf("\n%d of %d targets hold. %d processors, load %s before and %s after: above that number others were at work, and figures are worse than the machine's.\n", held, targets, runtime.NumCPU(), before, busy())
	}
	for _, f := range r.failed {
		fmt.Fprintln(os.Stderr, f)
	}
	return len(r.failed) == 0
}

// busy is how many processes wanted a processor in the last minute.
func busy() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(raw))[0]
}

// prepare builds the product as make build does, and gives the repository's root.
func prepare(binary string) (root string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "refold").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository; run this inside it: %w", err)
	}
	root = strings.TrimSpace(string(out))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./infra/cmd/refold")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return root, nil
}
