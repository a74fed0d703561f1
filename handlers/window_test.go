package handlers

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/tests/scenario"
)

// tokensOf counts a whole request again, from nothing.
func tokensOf(req ModelRequest) int {
	n := tailTokens + tokensOfTools(roughly{}, req.Tools)
	for _, m := range req.Messages {
		n += TokensOf(roughly{}, m)
	}
	return n
}

// story makes runs of a session for tests of the window.
type story struct {
	state run.State
	round int
}

func opened(id string, window int, query string, history ...string) *story {
	return &story{state: run.Evolve(run.State{}, run.RunStarted{Run: id, Session: "s", Query: query, History: history, Agent: run.Agent{SystemPrompt: "You answer."},
		Tools:  []tool.Definition{{Name: "web", Effect: tool.ReadOnly, Untrusted: true}, {Name: "read_tool_result", Effect: tool.ReadOnly}},
		Limits: run.Limits{ContextTokens: window}})}
}

func (b *story) add(events ...run.Event) *story {
	for _, e := range events {
		b.state = run.Evolve(b.state, e)
	}
	return b
}

// calls adds a round with results.
func (b *story) calls(outputs ...string) *story {
	b.round++
	b.add(run.ModelCallStarted{Call: b.round, Round: b.round - 1, Purpose: run.PurposeRound}, run.Thought{Call: b.round, Text: fmt.Sprint("Looking ", b.round)})
	for i := range outputs {
		b.add(run.ToolCallRequested{Call: fmt.Sprintf("%s-c%d-%d", b.state.Start.Run, b.round, i), Name: "web", Args: json.RawMessage(`{"q":"x"}`)})
	}
	for i, text := range outputs {
		b.add(run.ToolCompleted{Call: fmt.Sprintf("%s-c%d-%d", b.state.Start.Run, b.round, i), Success: true, Output: text})
	}
	return b
}

func (b *story) answers(text string) *story {
	b.round++
	return b.add(run.ModelCallStarted{Call: b.round, Purpose: run.PurposeRound}, run.Thought{Call: b.round, Text: text}, run.RunCompleted{Answer: text, EndReason: run.EndNatural})
}

// wellFormed checks the pairing rules of a request.
func wellFormed(t *testing.T, req ModelRequest) {
	t.Helper()
	seen := map[string]bool{}
	open := map[string]bool{}
	for i, m := range req.Messages {
		if m.Role == RoleTool {
			if !open[m.CallID] {
				t.Fatalf("message %d: result %q follows no call: %+v", i, m.CallID, req.Messages)
			}
			delete(open, m.CallID)
			continue
		}
		if len(open) > 0 {
			t.Fatalf("message %d: calls without results: %v", i, open)
		}
		for _, c := range m.Calls {
			if seen[c.ID] {
				t.Fatalf("call %q twice", c.ID)
			}
			seen[c.ID], open[c.ID] = true, true
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls without results: %v", open)
	}
}

func asks(req ModelRequest, question string) bool {
	for _, m := range req.Messages {
		if m.Role == RoleUser && strings.Contains(m.Content, question) {
			return true
		}
	}
	return false
}

// P32: over random histories and budgets, calls and results stay together, the
// window is kept to, and the question is there.
func TestP32_AnyHistoryAnyBudget(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	trimmed, refused, shortened := 0, 0, 0
	for n := range 150 {
		window := 600 + r.Intn(12_000)
		text := func(most int) string {
			return strings.Repeat([]string{"word ", "中文", "😀", "a"}[r.Intn(4)], r.Intn(most)+1)
		}
		var ids []string
		var states []run.State
		for i := range r.Intn(4) {
			id := fmt.Sprintf("h%d", i)
			b := opened(id, window, text(60))
			for range r.Intn(4) {
				b.calls(text(400), text(900))
			}
			if r.Intn(4) == 0 {
				b.add(run.RunStopped{}) // maybe in the middle
			} else {
				b.answers(text(200))
			}
			ids, states = append(ids, id), append(states, b.state)
		}
		b := opened("r", window, "What is it, in the end?", ids...)
		if r.Intn(3) == 0 {
			b.state.Sized = run.Sizing{Counted: 1000, Prompt: 700 + r.Intn(2500)}
		}
		p := newPrompt(roughly{}, b.state, pastOf(roughly{}, b.state, states, nil))
		for round := range 1 + r.Intn(8) {
			if r.Intn(6) == 0 && round > 0 {
				b.add(run.MemoryConsolidated{Text: text(300), To: run.Place{Run: "r", Step: r.Intn(len(b.state.Steps) + 1)}, Messages: 3})
			}
			if r.Intn(8) == 0 {
				b.add(run.Nudged{Reason: "loop", Text: "Do not repeat."})
			}
			s := b.state.Next()
			purpose := []string{run.PurposeRound, run.PurposeRound, run.PurposeSynthesis}[r.Intn(3)]
			req, fit, err := p.request(s, purpose)
			if err != nil {
				refused++
				break
			}
			if n%4 == 0 {
				fresh, again, _ := newPrompt(roughly{}, b.state, pastOf(roughly{}, b.state, states, nil)).request(s, purpose)
				if again.size != fit.size || !reflect.DeepEqual(fresh.Messages, req.Messages) {
					t.Fatalf("case %d: the same record gives another request", n)
				}
			}
			wellFormed(t, req)
			if !asks(req, "What is it, in the end?") {
				t.Fatalf("case %d: the question is missing", n)
			}
			// Merged messages count a little less than apart.
			if got := tokensOf(req); fit.size > window || p.scale(s).size(got) > window || got > fit.counted+3*len(req.Messages)+8 {
				t.Fatalf("case %d: size %d, counted %d, really %d, window %d", n, fit.size, fit.counted, got, window)
			}
			if fit.dropped > 0 {
				trimmed++
				if said := fmt.Sprintf("%d earlier messages of this conversation are left out here", fit.dropped); purpose == run.PurposeRound && !asks(req, said) {
					t.Fatalf("case %d: %d messages are left out, and the request does not say so", n, fit.dropped)
				}
			}
			for _, m := range req.Messages {
				if !utf8.ValidString(m.Content) {
					t.Fatalf("%q", m.Content)
				}
				if strings.Contains(m.Content, "Shortened to save space") {
					shortened++
				}
			}
			b.calls(text(400), text(1500))
		}
	}
	if trimmed < 25 || shortened < 25 || refused > 75 {
		t.Fatalf("%d requests were trimmed, %d results shortened, %d refused: the test tests something else", trimmed, shortened, refused)
	}
}

// Above four fifths of the window the oldest messages are left out, and not before.
func TestWindow_AboveFourFifths(t *testing.T) {
	const window = 5000
	var ids []string
	var states []run.State
	least, most := window, 0
	for n := range 60 {
		id := fmt.Sprint("h", n)
		ids, states = append(ids, id), append(states, opened(id, window, fmt.Sprint("question ", n)).answers(strings.Repeat("word ", 100)).state)
		size := func(window int) fitted {
			s := opened("r", window, "And now?", ids...).state
			_, fit, err := newPrompt(roughly{}, s, pastOf(roughly{}, s, states, nil)).request(s, run.PurposeRound)
			if err != nil {
				t.Fatal(err)
			}
			return fit
		}
		whole, fit := size(1_000_000), size(window)
		if above := 5*whole.size > 4*window; above != (fit.dropped > 0) || 5*fit.size > 4*window {
			t.Errorf("of %d tokens in %d turns %d messages are left out, %d tokens are sent", whole.size, n+1, fit.dropped, fit.size)
		}
		least, most = min(least, whole.size), max(most, whole.size)
	}
	if least > window/2 || most < window {
		t.Errorf("requests of %d to %d tokens: the test tests something else", least, most)
	}
}

// P33: a call that was cut off has a synthetic result in later turns.
func TestP33_CutOffCallsHaveResults(t *testing.T) {
	h := opened("h", 0, "q")
	h.add(run.ModelCallStarted{Call: 1}, run.Thought{Call: 1}, run.ToolCallRequested{Call: "a", Name: "web", Args: json.RawMessage("{}")},
		run.ToolCallRequested{Call: "b", Name: "web", Args: json.RawMessage("{}")}, run.ToolStarted{Call: "a", Attempt: 1}, run.ToolCompleted{Call: "b", Success: true, Output: "ok"})
	stop, err := run.Decide(h.state, run.Stop{By: "u"})
	if err != nil {
		t.Fatal(err)
	}
	h.add(stop...)
	b := opened("r", 0, "go on", "h")
	req, _, err := newPrompt(roughly{}, b.state, pastOf(roughly{}, b.state, []run.State{h.state}, nil)).request(b.state, run.PurposeRound)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, req)
	var roles []string
	for _, m := range req.Messages {
		roles = append(roles, m.Role)
	}
	scenario.Equal(t, "roles", []string{"system", "user", "assistant", "tool", "tool", "user"}, roles)
	if m := req.Messages[3]; m.CallID != "a" || !strings.Contains(m.Content, "its outcome is unknown") {
		t.Fatalf("%+v", m)
	}
}

// P40: a preview never cuts a character, and fits.
func TestP40_PreviewsCutNoCharacter(t *testing.T) {
	p := newPrompt(roughly{}, opened("r", 0, "q").state, past{})
	text := strings.Repeat("中文😀", 400)
	for budget := 0; budget < 700; budget += 7 {
		s := p.preview(run.Message{Role: RoleTool, CallID: "c", Name: "web", Content: text, Untrusted: budget%2 == 0}, budget)
		if !utf8.ValidString(s.message.Content) || strings.Contains(s.message.Content, "\uFFFD") {
			t.Fatalf("budget %d: %q", budget, s.message.Content)
		}
		if !strings.Contains(s.message.Content, "1200 characters") || !strings.Contains(s.message.Content, `call_id "c"`) {
			t.Fatalf("budget %d: the marker does not say how to get more: %q", budget, s.message.Content)
		}
		marker := p.preview(run.Message{Role: RoleTool, CallID: "c", Name: "web", Content: text}, 0).tokens
		if s.tokens > max(budget, marker) || s.tokens != TokensOf(roughly{}, s.message) {
			t.Fatalf("budget %d: %d tokens", budget, s.tokens)
		}
	}
}

// P41: one giant result next to the boundary pushes nothing else out.
func TestP41_OneGiantMessage(t *testing.T) {
	var ids []string
	var states []run.State
	for i := range 40 {
		b := opened(fmt.Sprint("h", i), 8000, fmt.Sprint("question ", i))
		if i == 37 {
			b.calls(strings.Repeat("a", 2_000_000))
		}
		states, ids = append(states, b.answers(fmt.Sprint("answer ", i)).state), append(ids, fmt.Sprint("h", i))
	}
	b := opened("r", 8000, "And the last one?", ids...)
	b.calls(strings.Repeat("b", 100_000))
	p := newPrompt(roughly{}, b.state, pastOf(roughly{}, b.state, states, nil))
	for _, purpose := range []string{run.PurposeRound, run.PurposeSynthesis} {
		req, fit, err := p.request(b.state.Next(), purpose)
		if err != nil || tokensOf(req) > 8000 || fit.size > 8000 {
			t.Fatalf("%s: %d tokens, %v", purpose, tokensOf(req), err)
		}
		wellFormed(t, req)
		if req.Messages[0].Content != "You answer." || !asks(req, "And the last one?") {
			t.Fatalf("%+v", req.Messages)
		}
	}
}

// An estimate that is wrong by a factor of three is wrong once.
func TestScale_LearnsFromTheProvider(t *testing.T) {
	s := scaleOf(run.Sizing{Counted: 4000, Prompt: 12_000})
	if s.size(5000) < 15_000 || s.size(s.room(16_000)) > 16_000 || s.room(16_000) < 5000 {
		t.Fatalf("%+v: %d, %d", s, s.size(5000), s.room(16_000))
	}
	// An overhead does not grow with the request.
	if s := scaleOf(run.Sizing{Counted: 100, Prompt: 700}); s.size(4000) != 4600 {
		t.Fatalf("%+v", s)
	}
	// Less than half is not believed.
	if s := scaleOf(run.Sizing{Counted: 4000, Prompt: 100}); s.size(4000) != 4000 {
		t.Fatalf("%+v", s)
	}
	b := opened("r", 16_000, "q")
	for range 8 {
		b.calls(strings.Repeat("word ", 1000))
	}
	b.state.Sized = run.Sizing{Counted: 3000, Prompt: 9000}
	req, fit, err := newPrompt(roughly{}, b.state, past{}).request(b.state.Next(), run.PurposeRound)
	if err != nil || 3*tokensOf(req) > 16_000 || fit.full <= fit.counted {
		t.Fatalf("size %d, %d tokens, %v", fit.size, tokensOf(req), err)
	}
}

// D28: images and reasoning count.
func TestD28_ImagesAndReasoningCount(t *testing.T) {
	m := ModelMessage{Role: RoleUser, Content: "word"}
	plain := TokensOf(roughly{}, m)
	m.Images = []string{"data:image/png;base64," + strings.Repeat("A", 1<<20)}
	if n := TokensOf(roughly{}, m); n != plain+imageTokens {
		t.Fatal(n)
	}
	m = ModelMessage{Role: RoleAssistant, Reasoning: strings.Repeat("hm, ", 100), Calls: []ModelCall{{Name: "web", Arguments: `{"q":"x"}`}}}
	if n := TokensOf(roughly{}, m); n != 3+100+4+1+3 {
		t.Fatal(n)
	}
}

type counting struct{ texts int }

func (c *counting) Count(text string) int { c.texts += len(text); return roughly{}.Count(text) }

// G14: a round counts what is new in it.
func TestG14_CountsOncePerMessage(t *testing.T) {
	c := &counting{}
	b := opened("r", 0, "q")
	p := newPrompt(c, b.state, past{})
	last := 0
	for i := range 60 {
		b.calls("result " + strings.Repeat("x", 100))
		s := b.state.Next()
		before := c.texts
		if _, _, err := p.request(s, run.PurposeRound); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.request(s, run.PurposeRound); err != nil {
			t.Fatal(err)
		}
		if spent := c.texts - before; i > 0 && spent > last+8 {
			t.Fatalf("round %d counted %d bytes, the one before %d", i, spent, last)
		} else {
			last = spent
		}
	}
}

func TestHistory_RedactsAndCompacts(t *testing.T) {
	data := json.RawMessage(`{"display_type":"plan","task":"Find it","steps":[{},{}]}`)
	for _, c := range []struct {
		m    run.Message
		keep bool
		want string
	}{
		{run.Message{Role: RoleTool, Name: "read_file", Content: "old text"}, false, redacted},
		{run.Message{Role: RoleTool, Name: "read_file", Content: "old text", Data: data}, true, "old text"},
		{run.Message{Role: RoleTool, Name: "read_file", Content: "Error: gone", Failed: true}, false, "Error: gone"},
		{run.Message{Role: RoleTool, Name: "knowledge_search", Content: "old"}, false, redacted},
		{run.Message{Role: RoleTool, Name: "todo_write", Content: "the plan", Data: data}, false, `[todo_write completed: 2 steps, task "Find it". The payload is left out here.]`},
		{run.Message{Role: RoleTool, Name: "x", Content: "long", Data: json.RawMessage(`{"display_type":"y"}`)}, false, "[x completed; its payload is left out here.]"},
		{run.Message{Role: RoleTool, Name: "x", Content: "short", Data: json.RawMessage(`{"n":1}`)}, false, "short"},
		{run.Message{Role: RoleUser, Name: "read_file", Content: "read_file"}, false, "read_file"},
	} {
		if got := remembered(c.m, c.keep); got.Content != c.want {
			t.Errorf("%+v, %v: %q", c.m, c.keep, got.Content)
		}
	}
}

// What a person has said in mid-run is in every request, also when a summary
// stands for the rounds around it.
func TestWindow_KeepsWhatAPersonSaid(t *testing.T) {
	b := opened("r", 8000, "Look around.").calls("one")
	b.add(run.MessageSteered{Message: "m1", Text: "Look behind the door, too."})
	for range 5 {
		b.calls("more")
	}
	b.add(run.MemoryConsolidated{Text: "They looked.", From: run.Place{Run: "r", Step: 1}, To: run.Place{Run: "r", Step: 9}, Messages: 8})
	for range 20 {
		b.calls(strings.Repeat("word ", 700))
	}
	req, fit, err := newPrompt(roughly{}, b.state, past{}).request(b.state.Next(), run.PurposeRound)
	if err != nil || fit.size > 8000 || !asks(req, "Look behind the door, too.") || !asks(req, "Look around.") || !asks(req, "They looked.") {
		t.Fatalf("%+v, %v", req.Messages, err)
	}
	wellFormed(t, req)
}

// What was measured is what is sent, and nobody can change it.
func TestWindow_IsBuiltOncePerRound(t *testing.T) {
	b := opened("r", 8000, "Look around.").calls("one")
	p := newPrompt(roughly{}, b.state, past{})
	first, _, _ := p.request(b.state.Next(), run.PurposeRound)
	first.Messages[1].Content = "changed"
	again, _, _ := p.request(b.state.Next(), run.PurposeRound)
	fresh, _, _ := newPrompt(roughly{}, b.state, past{}).request(b.state.Next(), run.PurposeRound)
	if !reflect.DeepEqual(again, fresh) {
		t.Fatalf("%+v", again.Messages)
	}
	b.calls("two")
	if next, _, _ := p.request(b.state.Next(), run.PurposeRound); len(next.Messages) != len(fresh.Messages)+2 {
		t.Fatalf("%+v", next.Messages)
	}
}
