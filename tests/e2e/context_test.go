package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"refold/infra/tiktoken"
	"refold/tests/scripted"
)

// narrow is a model with a window: it counts what it is sent as its tokenizer
// does, with an overhead of its own, refuses what is too long in OpenAI's words,
// sums up when it is asked to, and otherwise looks round after round.
type narrow struct {
	window int
	rounds int // of a turn
	count  tiktoken.Counter
	more   float64                     // what its tokens are, of ours
	gate   func(n int) <-chan struct{} // holds the n-th summary; nil = not

	mu        sync.Mutex
	turn      int
	round     int
	requests  int
	summaries int
	refused   int
	largest   int
	faults    []string
}

var (
	codeWord = regexp.MustCompile(`code word is ([a-z]+-\d+)`)
	places   = regexp.MustCompile(`"at":"(turn \d+ place \d+)`)
)

func (n *narrow) tokens(r scripted.Request) int {
	total := 37
	for _, m := range r.Messages {
		total += 5 + n.count.Count(m.Text())
		for _, c := range m.ToolCalls {
			total += 9 + n.count.Count(c.Function.Name) + n.count.Count(c.Function.Arguments)
		}
	}
	for _, d := range r.Tools {
		total += 12 + n.count.Count(d.Function.Name) + n.count.Count(d.Function.Description) + n.count.Count(string(d.Function.Parameters))
	}
	return int(float64(total) * n.more)
}

// filler is text that no two rounds share.
func filler(turn, round int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d place %d: ", turn, round)
	for i := range 60 {
		fmt.Fprintf(&b, "shelf %d holds box %d, ", i, (turn*131+round*17+i*7)%997)
	}
	return b.String()
}

func (n *narrow) answer(r scripted.Request) scripted.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
	size := n.tokens(r)
	n.largest = max(n.largest, size)
	n.faults = append(n.faults, scripted.Anthropic(r.Messages)...)
	if size > n.window {
		n.refused++
		return scripted.Fail(http.StatusBadRequest, fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", n.window, size))(r)
	}
	usage := scripted.Usage(size, 20, size+20)
	if strings.Contains(r.Messages[0].Text(), "You condense") {
		n.summaries++
		material := r.Messages[len(r.Messages)-1].Text()
		text := "The user had shelves looked at, place after place; nothing unusual was found."
		if m := codeWord.FindString(material); m != "" {
			text += " The " + m + "."
		}
		deltas := []scripted.Delta{scripted.Text(text), usage}
		if n.gate != nil {
			if gate := n.gate(n.summaries); gate != nil {
				deltas = append([]scripted.Delta{scripted.Gate(gate)}, deltas...)
			}
		}
		return scripted.Say(deltas...)(r)
	}
	n.round++
	if n.round < n.rounds {
		text := fmt.Sprintf("Looking at place %d.", n.round)
		if n.turn == 1 && n.round == 1 {
			text = "I note: the code word is blueberry-7731."
		}
		return scripted.Say(scripted.Text(text), call(fmt.Sprintf("t%d_%d", n.turn, n.round), "look", fmt.Sprintf("{\"at\":%q}", filler(n.turn, n.round))), usage)(r)
	}
	var all strings.Builder
	for _, m := range r.Messages {
		all.WriteString(m.Text() + "\n")
	}
	known := "I do not know it any more."
	if m := codeWord.FindStringSubmatch(all.String()); m != nil {
		known = "It is " + m[1] + "."
	}
	return scripted.Say(scripted.Text(known), usage)(r)
}

func (n *narrow) begin(turn int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn, n.round = turn, 0
}

// lab starts a server whose only model is the narrow one.
func (n *narrow) lab(t *testing.T) *lab {
	if n.more == 0 {
		n.more = 1
	}
	<-n.count.Load()
	l := newLab(t, func(s *settings) { s.Context, s.Volume = n.window, true })
	l.model.Always(n.answer)
	return l
}

// Two hundred rounds through a window of 16,000 tokens: no request is longer than
// the window by the provider's count, the pairing rules of OpenAI (checked by the
// scripted server) and Anthropic hold in every one, and the last answer still
// knows a fact of the first round.
func TestContext_TwoHundredRoundsThroughASmallWindow(t *testing.T) {
	t.Parallel()
	n := &narrow{window: 16_000, rounds: 50}
	l := n.lab(t)
	session := l.session(t)
	last := ""
	for turn := 1; turn <= 4; turn++ {
		n.begin(turn)
		question := fmt.Sprintf("Turn %d: look at all places. What is the code word?", turn)
		r := l.chat(t, session, question)
		frames := r.rest(t)
		last = r.run()
		if f := frames[len(frames)-1]; f.Type != "complete" {
			t.Fatalf("turn %d ended with %s: %s", turn, f.Type, f.Content)
		}
	}
	if m := l.message(t, session, last); m.Content != "It is blueberry-7731." || m.Outcome != "completed" {
		t.Errorf("the answer: %q, %s", m.Content, m.Outcome)
	}
	for _, r := range l.model.Requests() {
		if strings.Contains(r.Messages[0].Text(), "You condense") {
			continue
		}
		if !strings.Contains(r.Last("user"), "What is the code word?") {
			t.Fatalf("request %d does not end with the question: %s", r.Number, r.Last("user"))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	rounds := n.requests - n.summaries
	if rounds != 200 || n.refused > 0 || n.largest > n.window || len(n.faults) > 0 || n.summaries < 4 {
		t.Errorf("%d rounds, %d summaries, %d refused, the largest request had %d tokens; %v", rounds, n.summaries, n.refused, n.largest, n.faults)
	}
	t.Logf("%d rounds, %d summaries, the largest request had %d of %d tokens", rounds, n.summaries, n.largest, n.window)
	l.expands(t, last)
}

// expands reads a run's summaries and what they stand for.
func (l *lab) expands(t *testing.T, run string) {
	t.Helper()
	var list []struct {
		Number, Messages int
		Text             string
		Archive          bool
		From, To         struct{ Run string }
	}
	l.do(t, "GET", "/api/v1/runs/"+run+"/memory", nil).data(t, 200, &list)
	if len(list) == 0 || list[0].Number != 1 || list[0].Messages < 2 || list[0].Archive || !strings.Contains(list[0].Text, "blueberry-7731") || list[0].From.Run == run {
		t.Fatalf("the summaries: %+v", list)
	}
	found, seen := false, map[string]bool{}
	for offset := 0; ; {
		var originals []struct {
			Role, Content string
			Calls         []struct{ Arguments string } `json:"tool_calls"`
		}
		a := l.do(t, "GET", fmt.Sprintf("/api/v1/runs/%s/memory?expand=1&offset=%d", run, offset), nil)
		a.data(t, 200, &originals)
		for _, o := range originals {
			found = found || o.Role == "assistant" && o.Content == "I note: the code word is blueberry-7731."
			for _, c := range o.Calls {
				for _, p := range places.FindAllStringSubmatch(c.Arguments, -1) {
					seen[p[1]] = true
				}
			}
		}
		if offset += len(originals); len(originals) == 0 {
			break
		}
	}
	if !found || !seen["turn 1 place 1"] || !seen["turn 1 place 49"] {
		t.Errorf("the originals are not all there: the fact %v, %d places", found, len(seen))
	}
	for path, status := range map[string]int{"?expand=99": 404, "?expand=x": 400, "?expand=1&offset=-1": 400} {
		if a := l.do(t, "GET", "/api/v1/runs/"+run+"/memory"+path, nil); a.status != status {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if a := l.do(t, "GET", "/api/v1/runs/nobody/memory", nil); a.status != 404 {
		t.Errorf("an unknown run: %d", a.status)
	}
}

// A tokenizer that gives three times as many tokens as ours, and a window that
// is smaller than configured: the first refusal is made good, and nothing is
// refused after what it taught.
func TestContext_EstimateWrongByAFactorOfThree(t *testing.T) {
	t.Parallel()
	n := &narrow{window: 16_000, rounds: 30, more: 3}
	l := n.lab(t)
	session := l.session(t)
	n.begin(1)
	r := l.chat(t, session, "What is the code word?")
	frames := r.rest(t)
	if f := frames[len(frames)-1]; f.Type != "complete" {
		t.Fatalf("ended with %s: %s", f.Type, f.Content)
	}
	if m := l.message(t, session, r.run()); m.Content != "It is blueberry-7731." {
		t.Errorf("the answer: %q", m.Content)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused > 1 || len(n.faults) > 0 || n.summaries == 0 {
		t.Errorf("%d refused, %d summaries, %v", n.refused, n.summaries, n.faults)
	}
}

// The provider's window is smaller than ours: its refusal says by how much, the
// run consolidates once and goes on.
func TestContext_OverflowConsolidatesOnceAndRetries(t *testing.T) {
	t.Parallel()
	n := &narrow{window: 12_000, rounds: 40}
	n.more = 1
	<-n.count.Load()
	l := newLab(t, func(s *settings) { s.Context = 60_000 })
	l.model.Always(n.answer)
	session := l.session(t)
	n.begin(1)
	r := l.chat(t, session, "What is the code word?")
	frames := r.rest(t)
	if f := frames[len(frames)-1]; f.Type != "complete" {
		t.Fatalf("ended with %s: %s", f.Type, f.Content)
	}
	if m := l.message(t, session, r.run()); m.Content != "It is blueberry-7731." {
		t.Errorf("the answer: %q", m.Content)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused != 1 || len(n.faults) > 0 || n.summaries == 0 {
		t.Errorf("%d refused, %d summaries, %v", n.refused, n.summaries, n.faults)
	}
}

// kill -9 in the middle of a consolidation: the run goes on by itself and still
// knows.
func TestContext_KilledInTheMiddleOfASummary(t *testing.T) {
	t.Parallel()
	never, reached := make(chan struct{}), make(chan struct{}, 1)
	n := &narrow{window: 16_000, rounds: 40}
	n.gate = func(k int) <-chan struct{} {
		if k != 1 {
			return nil
		}
		reached <- struct{}{}
		return never
	}
	l := n.lab(t)
	session := l.session(t)
	n.begin(1)
	r := l.chat(t, session, "What is the code word?")
	run := r.run()
	select {
	case <-reached:
	case <-guarded(t).Done():
		t.Fatal("no summary was asked for")
	}
	l.p.kill(t)
	l.up(t)
	l.watch(t, session, run, "").rest(t)
	if m := l.message(t, session, run); m.Content != "It is blueberry-7731." || m.Outcome != "completed" {
		t.Errorf("the answer: %q, %s", m.Content, m.Outcome)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused > 0 || len(n.faults) > 0 || n.summaries < 2 {
		t.Errorf("%d refused, %d summaries, %v", n.refused, n.summaries, n.faults)
	}
}
