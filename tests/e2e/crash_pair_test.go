package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"refold/tests/scripted"
	"refold/tests/services"
)

// TestPair: two servers on one PostgreSQL, one or both of them killed over and
// over while runs are in progress and readers go from one to the other. A
// transaction of somebody else is open all the time.
func TestPair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version             string
		waves, each, deaths int
	}{{"15", 5, 20, 12}, {"18", 1, 20, 8}} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			pair(t, c.version, c.waves, c.each, c.deaths)
		})
	}
}

func pair(t *testing.T, version string, waves, each, deaths int) {
	seed := int64(1)
	if s := os.Getenv("E2E_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	dsn := services.Postgres(t, version)
	db, err := pgx.Connect(guarded(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	stall(t, dsn)
	model := scripted.New(t)
	s := settings{Store: dsn, Ledger: filepath.Join(t.TempDir(), "ledger"), ModelURL: model.URL, Gone: 1200, Rate: "off", ChatRate: "off"}
	x := newTwins(t, seed, s)
	m := &stories{x: x, failed: map[int]bool{}}
	model.Always(m.step)
	var all []*voyager
	for w := range waves {
		x.allow(deaths)
		ctx := guarded(t)
		var wave sync.WaitGroup
		for i := range each {
			n := w*each + i
			v := &voyager{traveller: traveller{t: t, story: newStory(n), ledger: s.Ledger, byRoute: n%3 == 0}, x: x,
				side: n % 2, rng: rand.New(rand.NewSource(seed + int64(n))), lines: map[string]int{}}
			if n%4 < 2 {
				v.key = fmt.Sprintf("story-%d", n)
			}
			all = append(all, v)
			wave.Go(func() {
				if err := v.sail(ctx); err != nil {
					t.Errorf("story %d: %v", n, err)
				}
			})
		}
		wave.Wait()
		if t.Failed() {
			return
		}
	}
	if err := x.settle(guarded(t)); err != nil {
		t.Fatal(err)
	}
	// Each run has one end, and no session has more than its one run.
	rows, err := db.Query(guarded(t), `SELECT count(*)::int FROM event WHERE type IN ('RunCompleted', 'RunFailed', 'RunStopped') GROUP BY stream`)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(ends) != len(all) {
		t.Errorf("%d runs have ended, not %d, %v", len(ends), len(all), err)
	}
	for _, n := range ends {
		if n != 1 {
			t.Errorf("a run has ended %d times", n)
		}
	}
	lines := count(t, s.Ledger)
	total := struct{ frames, moves, approved, rejected, lost int }{}
	for _, v := range all {
		for line, n := range v.lines { // an approval may let a line be written again
			if n > 0 && lines[line] == 2 {
				t.Logf("%q was written again after an approval", line)
				lines[line] = 1
			}
		}
		var lists [2]string
		for side := range x.p {
			c := x.p[side].client()
			v.check(t, c, lines)
			lists[side] = c.do(t, "GET", "/api/v1/messages/"+v.session+"/load", nil).body
		}
		if lists[0] != lists[1] || len(v.frames) == 0 {
			t.Errorf("story %d: the servers show different messages:\n%s", v.story.number, firstDiff(lists[0], lists[1]))
		}
		total.frames += len(v.frames)
		total.moves += v.moves
		total.approved += v.approved
		total.rejected += v.rejected
		total.lost += strings.Count(wire(v.frames), `"reason":"recovered"`)
	}
	for line, n := range lines {
		if n != 1 {
			t.Errorf("the ledger has %q %d times", line, n)
		}
	}
	for _, p := range x.p {
		p.kill(t)
	}
	out := refold(t, "--store", dsn, "--data", t.TempDir(), "--json", "rebuild")
	if out.code != 0 || strings.Contains(out.stdout, `"equal":false`) || !strings.Contains(out.stdout, `"equal":true`) {
		t.Errorf("rebuild after the crashes: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if x.kills < waves*deaths/2 || total.moves < len(all) || waves > 1 && (total.approved == 0 || total.rejected == 0) {
		t.Errorf("the test did not test: %d kills, %d moves, %d approved, %d rejected", x.kills, total.moves, total.approved, total.rejected)
	}
	t.Logf("pair: PostgreSQL %s, seed %d, %d runs, %d kills (%d of both at once, %d between effect and report), %d moves of readers, %d model requests, "+
		"%d frames equal byte for byte on both, %d ledger lines once each, recovery approvals %d approved %d rejected, texts recovered %d",
		version, seed, len(all), x.kills, x.both, x.effects, total.moves, len(model.Requests()), total.frames, len(lines), total.approved, total.rejected, total.lost)
}

// stall leaves a transaction open that has written something, for the whole test.
func stall(t testing.TB, dsn string) {
	t.Helper()
	c, err := pgx.Connect(guarded(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	execute(t, c, "CREATE TABLE somebody (id bigint)", "BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO somebody VALUES (1)")
}

// tell lets the database run statements, one by one.
func tell(t testing.TB, dsn string, sql ...string) {
	t.Helper()
	c, err := pgx.Connect(guarded(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	execute(t, c, sql...)
}

func execute(t testing.TB, c *pgx.Conn, list ...string) {
	t.Helper()
	for _, sql := range list {
		if _, err := c.Exec(guarded(t), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// number asks the database for one.
func number(t testing.TB, dsn, sql string) (n int) {
	t.Helper()
	c, err := pgx.Connect(guarded(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(guarded(t), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
