package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"refold/tests/scripted"
)

// story is what the scripted model says in one run: rounds of thoughts, texts
// and calls, then an answer. It depends on its number alone, so that a repeated
// attempt says the same.
type story struct {
	number int
	rounds []round
	fails  int // the round whose first attempt breaks off
	answer []string
}

type round struct {
	reasoning string
	text      []string
	calls     []scripted.Call
}

func newStory(n int) story {
	rng := rand.New(rand.NewSource(int64(n)))
	s := story{number: n}
	for r := range 2 + rng.Intn(3) {
		rd := round{reasoning: fmt.Sprintf("Round %d of story %d: think 想 first.", r, n)}
		if rng.Intn(2) == 0 {
			rd.text = []string{"Let me ", "look ", fmt.Sprintf("at it (%d).", r)}
		}
		for c := range 1 + rng.Intn(3) {
			line := fmt.Sprintf("story %d round %d call %d", n, r, c)
			call := scripted.Call{Name: "look", Args: fmt.Sprintf(`{"at":%q}`, line), ID: fmt.Sprintf("call_%d_%d_%d", n, r, c)}
			if c == 0 || rng.Intn(2) == 0 {
				call.Name, call.Args = "ledger_append", fmt.Sprintf(`{"line":%q}`, line)
			}
			rd.calls = append(rd.calls, call)
		}
		s.rounds = append(s.rounds, rd)
	}
	s.fails = rng.Intn(len(s.rounds) + 1)
	s.answer = []string{"The ", "end ", "of ", "story ", strconv.Itoa(n), " 结束", ", <all> & done", "."}
	return s
}

// lines are what the ledger must have in the end.
func (s story) lines() []string {
	var out []string
	for _, r := range s.rounds {
		for _, c := range r.calls {
			if c.Name == "ledger_append" {
				out = append(out, strings.TrimSuffix(strings.TrimPrefix(c.Args, `{"line":"`), `"}`))
			}
		}
	}
	return out
}

// stories are the model: every piece that it writes is a tick.
type stories struct {
	x interface{ tick(weight int) bool }

	mu     sync.Mutex
	failed map[int]bool
}

var storyNumber = regexp.MustCompile(`story (\d+)`)

func (m *stories) step(r scripted.Request) scripted.Reply {
	m.x.tick(1)
	hit := storyNumber.FindStringSubmatch(r.Last("user"))
	if hit == nil {
		return scripted.Fail(400, "no story")(r)
	}
	n, _ := strconv.Atoi(hit[1])
	s, at := newStory(n), 0
	for _, msg := range r.Messages {
		if len(msg.ToolCalls) > 0 {
			at++
		}
	}
	var deltas []scripted.Delta
	if at < len(s.rounds) {
		rd := s.rounds[at]
		deltas = append(deltas, scripted.Reasoning(rd.reasoning[:7]), scripted.Reasoning(rd.reasoning[7:]))
		for _, t := range rd.text {
			deltas = append(deltas, scripted.Text(t))
		}
		deltas = append(deltas, scripted.Calls(rd.calls...))
	} else {
		deltas = append(deltas, scripted.Reasoning("I know enough."))
		for _, t := range s.answer {
			deltas = append(deltas, scripted.Text(t))
		}
	}
	parts := scripted.Chunks(r.Model, append(deltas, scripted.Usage(10, 5, 15))...)
	m.mu.Lock()
	if at == s.fails && !m.failed[n] {
		m.failed[n] = true
		parts = append(parts[:len(parts)/2:len(parts)/2], scripted.Reset())
	}
	m.mu.Unlock()
	var slow []scripted.Part
	for _, p := range parts {
		slow = append(slow, p, scripted.Pause(func(<-chan struct{}) { m.x.tick(1) }))
	}
	return scripted.Reply{Parts: slow}
}

// traveller follows one run through all deaths of the server.
type traveller struct {
	x       *phoenix
	t       testing.TB
	story   story
	ledger  string
	byRoute bool // read the session's events, not continue-stream
	session string
	run     string
	frames  []frame
	settled sync.WaitGroup // decisions on the way

	approved, rejected int
}

// again repeats f until it works; only the death of the server excuses it.
func (v *traveller) again(ctx context.Context, f func(client) error) error {
	for {
		c, life, err := v.x.client(ctx)
		if err != nil {
			return err
		}
		if err = f(c); err == nil {
			return nil
		}
		if ctx.Err() != nil || !v.x.died(life) {
			return err
		}
	}
}

func (v *traveller) travel(ctx context.Context) error {
	defer v.settled.Wait()
	if err := v.again(ctx, func(c client) error {
		a, err := c.try(ctx, "POST", "/api/v1/sessions", map[string]any{"title": "crash"})
		if err != nil {
			return err
		}
		var s struct{ Data struct{ ID string } }
		if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 201 {
			return fmt.Errorf("HTTP %d %s: %w", a.status, a.body, err)
		}
		v.session = s.Data.ID
		return nil
	}); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	var r *reader
	if err := v.again(ctx, func(c client) (err error) {
		r, err = v.post(ctx, c)
		return err
	}); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	for {
		err := v.follow(ctx, r)
		if err == nil {
			return nil
		}
		if err := v.again(ctx, func(c client) (err error) {
			last, path := "", continued(v.session, v.run)
			if len(v.frames) > 0 {
				last = v.frames[len(v.frames)-1].id
			}
			if v.byRoute {
				path = "/api/v1/sessions/" + v.session + "/events"
			}
			r, err = c.read(ctx, path, last)
			return err
		}); err != nil {
			return fmt.Errorf("follow after %d frames: %w", len(v.frames), err)
		}
	}
}

// post posts the message, unless an earlier try has got through.
func (v *traveller) post(ctx context.Context, c client) (*reader, error) {
	a, err := c.try(ctx, "GET", "/api/v1/messages/"+v.session+"/load", nil)
	if err != nil {
		return nil, err
	}
	var list struct{ Data []message }
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
		return nil, fmt.Errorf("HTTP %d %s: %w", a.status, a.body, err)
	}
	for _, m := range list.Data {
		if m.Role == "assistant" {
			v.run = m.ID
			return c.read(ctx, continued(v.session, v.run), "")
		}
	}
	r, err := c.stream(ctx, "POST", "/api/v1/agent-chat/"+v.session, map[string]any{
		"query": fmt.Sprintf("tell story %d", v.story.number), "agent_id": "builtin-smart-reasoning", "agent_enabled": true}, "")
	if err == nil {
		v.run = r.run()
	}
	return r, err
}

// follow reads to the terminal frame; an error means that the stream broke.
func (v *traveller) follow(ctx context.Context, r *reader) error {
	defer r.close()
	for {
		f, err := r.next()
		if err != nil {
			return err
		}
		if f.event == "resync" {
			v.t.Errorf("story %d: resync: %s", v.story.number, f.raw)
		}
		v.frames = append(v.frames, f)
		if f.Type == "tool_approval_required" {
			v.decide(ctx, f)
		}
		if f.terminal() {
			return nil
		}
		v.x.tick(1)
	}
}

// decide answers a recovery approval as a careful person would: the call runs
// again only if the ledger shows that it had no effect.
func (v *traveller) decide(ctx context.Context, f frame) {
	var args struct{ Line string }
	if err := json.Unmarshal([]byte(f.text("args_json")), &args); err != nil || f.text("trigger") != "recovery" {
		v.t.Errorf("an approval that nobody should ask for: %s", f.raw)
		return
	}
	decision := "approve"
	if count(v.t, v.ledger)[args.Line] > 0 {
		decision = "reject"
		v.rejected++
	} else {
		v.approved++
	}
	v.settled.Go(func() {
		if err := v.again(ctx, func(c client) error {
			a, err := c.try(ctx, "POST", "/api/v1/agent/tool-approvals/"+f.text("pending_id"), map[string]any{"decision": decision})
			if err != nil || a.status == 200 || a.status == 400 && strings.Contains(a.body, "already_resolved") {
				return err
			}
			return fmt.Errorf("HTTP %d %s", a.status, a.body)
		}); err != nil {
			v.t.Errorf("story %d: %s: %v", v.story.number, decision, err)
		}
	})
}

// count counts the lines of a ledger.
func count(t testing.TB, path string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		if line != "" {
			out[line]++
		}
	}
	return out
}

// TestCrash kills the server over and over while runs are in progress.
func TestCrash(t *testing.T) {
	t.Parallel()
	const waves, each, deaths = 10, 5, 9
	seed := int64(1)
	if s := os.Getenv("E2E_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	dir := t.TempDir()
	model := scripted.New(t)
	s := settings{Data: filepath.Join(dir, "data"), Ledger: filepath.Join(dir, "ledger"), ModelURL: model.URL}
	x := newPhoenix(t, seed, s)
	m := &stories{x: x, failed: map[int]bool{}}
	model.Always(m.step)
	var all []*traveller
	for w := range waves {
		x.allow(deaths)
		ctx := guarded(t)
		var wave sync.WaitGroup
		for i := range each {
			n := w*each + i
			v := &traveller{x: x, t: t, story: newStory(n), ledger: s.Ledger, byRoute: n%3 == 0}
			all = append(all, v)
			wave.Go(func() {
				if err := v.travel(ctx); err != nil {
					t.Errorf("story %d: %v", n, err)
				}
			})
		}
		wave.Wait()
		if t.Failed() {
			return
		}
	}
	x.allow(0)
	c, _, err := x.client(guarded(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := count(t, s.Ledger)
	total := struct{ frames, approved, rejected, lost, retried int }{}
	for _, v := range all {
		v.check(t, c, lines)
		total.frames += len(v.frames)
		total.approved += v.approved
		total.rejected += v.rejected
		for _, f := range v.frames {
			switch f.text("reason") {
			case "recovered":
				total.lost++
			case "retry":
				total.retried++
			}
		}
	}
	for line, n := range lines {
		if n != 1 {
			t.Errorf("the ledger has %q %d times", line, n)
		}
	}
	x.p.kill(t)
	out := refold(t, "--data", s.Data, "--json", "rebuild")
	if out.code != 0 || strings.Contains(out.stdout, `"equal":false`) {
		t.Errorf("rebuild after the crashes: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if x.kills < waves*deaths/2 || total.approved == 0 || total.rejected == 0 {
		t.Errorf("the test did not test: %d kills, %d approved, %d rejected", x.kills, total.approved, total.rejected)
	}
	t.Logf("crash: seed %d, %d runs, %d kills (%d between effect and report), %d model requests, %d frames equal byte for byte, "+
		"%d ledger lines once each, recovery approvals %d approved %d rejected, texts superseded %d recovered %d retry",
		seed, len(all), x.kills, x.effects, len(model.Requests()), total.frames, len(lines), total.approved, total.rejected, total.lost, total.retried)
}

// check compares what the traveller has seen with the record.
func (v *traveller) check(t *testing.T, c client, lines map[string]int) {
	t.Helper()
	checkFeed(t, v.frames)
	mine := wire(v.frames)
	for _, path := range []string{continued(v.session, v.run), "/api/v1/sessions/" + v.session + "/events?follow=false",
		"/api/v1/sessions/" + v.session + "/events?message_id=" + url.QueryEscape(v.run)} {
		if fresh := wire(c.open(t, path, "").rest(t)); fresh != mine {
			t.Errorf("story %d: %s differs from what the reader saw:\n%s", v.story.number, path, firstDiff(mine, fresh))
		}
	}
	want := strings.Join(v.story.answer, "")
	last, m := v.frames[len(v.frames)-1], c.message(t, v.session, v.run)
	if last.Type != "complete" || last.text("end_reason") != "natural" || m.Outcome != "completed" || !m.Completed {
		t.Errorf("story %d ended with %s, message %s %s", v.story.number, last.raw, m.Outcome, m.EndReason)
	}
	if got := shown(v.frames, "answer"); got != want || m.Content != want {
		t.Errorf("story %d: shown %q, stored %q, want %q", v.story.number, got, m.Content, want)
	}
	for _, line := range v.story.lines() {
		if lines[line] != 1 {
			t.Errorf("the ledger has %q %d times", line, lines[line])
		}
	}
}

// firstDiff shows where two texts part.
func firstDiff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, p, q)
		}
	}
	return ""
}
