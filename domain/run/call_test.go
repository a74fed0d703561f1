package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"refold/domain/run"
	"refold/tests/scenario"
)

// paired checks what every provider asks for: the results of a message's calls
// follow at once, each once, in order; ids are unique.
func paired(t testing.TB, messages []run.Message) {
	t.Helper()
	seen := map[string]bool{}
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == "tool" {
			t.Fatalf("message %d: a result without its call: %+v", i, m)
		}
		if m.Role != "user" && m.Content == "" && len(m.Calls) == 0 {
			t.Fatalf("message %d is empty", i)
		}
		for k, c := range m.Calls {
			if c.ID == "" || seen[c.ID] || !json.Valid([]byte(c.Arguments)) {
				t.Fatalf("message %d: call %q twice, without id or with bad arguments", i, c.ID)
			}
			seen[c.ID] = true
			if i+1+k >= len(messages) || messages[i+1+k].Role != "tool" || messages[i+1+k].CallID != c.ID {
				t.Fatalf("message %d: the result of %q does not follow", i, c.ID)
			}
		}
		i += len(m.Calls)
	}
}

func TestP12_CallsDecide(t *testing.T) {
	for finish, runs := range map[string]bool{"stop": true, "end_turn": true, "tool_calls": true, "weird": true, "": true, "length": true, "content_filter": false} {
		p := begin(t).says("Checking.", finish, call("c1", "now"))
		if got := len(run.Due(p.State(), moment(0))) == 1 && !p.State().Over(); got != runs {
			t.Fatalf("%q: runs %v", finish, got)
		}
	}
}

func TestP13_TextBeforeACallIsTheRoundsThought(t *testing.T) {
	p := begin(t).says("Let me look.", "stop", call("c1", "now")).Kinds("Thought", "ToolCallRequested").ran("noon", "c1").says("Noon.", "stop")
	p.ended("completed", run.EndNatural, "Noon.")
	scenario.Equal(t, "turn", []run.Message{{Role: "user", Content: "What time is it?"},
		{Role: "assistant", Content: "Let me look.", Calls: []run.ProposedCall{call("c1", "now")}},
		{Role: "tool", CallID: "c1", Name: "now", Content: "noon"}, {Role: "assistant", Content: "Noon."}}, p.State().Turn())
}

func TestContentFilter_NeverRunsCalls(t *testing.T) {
	p := begin(t).says("", "content_filter", call("c1", "send"), call("c1", "send"), call("", "pay"))
	p.Kinds("Thought", "ToolCallRequested", "ToolCompleted", "ToolCallRequested", "ToolCompleted", "ToolCallRequested", "ToolCompleted", "RunCompleted").
		ended("completed", run.EndContentFilter, filtered)
	paired(t, p.State().Turn())
	begin(t).says("Fi", "content_filter", call("c1", "send")).ended("completed", run.EndContentFilter, "Fi")
}

func TestP17_LengthRunsOnlyWhatParsesStrictly(t *testing.T) {
	p := begin(t).says("", "length", callWith("c1", "send", `{"path":"a.md"}`), callWith("c2", "send", `{"path":"b.md",}`),
		callWith("c3", "send", `{"path":"c.md","content":"line 1\nline`))
	p.Due(moment(0), run.CallTool{Call: "c1", Attempt: 1})
	for _, id := range []string{"c2", "c3"} {
		if r := p.closed(id); r.Reason != run.ReasonNotRun || r.Success {
			t.Fatalf("%+v", r)
		}
	}
	p.ran("ok", "c1")
	paired(t, p.State().Transcript())
	// P18: whatever the finish reason says, an open string is cut.
	p = begin(t).says("", "tool_calls", callWith("c1", "send", `{"label":"a","text":"long`))
	p.Kinds("Thought", "ToolCallRequested", "ToolCompleted")
	req := scenario.Last[run.ToolCallRequested](p.RunCase)
	if req.Raw != `{"label":"a","text":"long` || string(req.Args) != "{}" || req.Problem == "" {
		t.Fatalf("%+v", req)
	}
	if m := p.State().Transcript(); m[0].Calls[0].Arguments != "{}" {
		t.Fatalf("%+v", m)
	}
	begin(t).calls(callWith("c1", "send", `{"path":"b.md",}`)).Due(moment(0), run.CallTool{Call: "c1", Attempt: 1}) // repaired
}

func TestP21_NoArguments(t *testing.T) {
	for _, raw := range []string{"", "   ", "null", "{}"} {
		p := begin(t).calls(callWith("c1", "now", raw))
		if req := scenario.Last[run.ToolCallRequested](p.RunCase); string(req.Args) != "{}" || req.Problem != "" {
			t.Fatalf("%q: %+v", raw, req)
		}
	}
}

func TestP16_NamesAreTrimmed(t *testing.T) {
	p := begin(t).calls(call("c1", "\n now \n"))
	p.Due(moment(0), run.CallTool{Call: "c1", Attempt: 1})
	p = begin(t).calls(call("c1", "nwo"))
	if r := p.closed("c1"); !strings.Contains(r.Output, `"nwo"`) || !strings.Contains(r.Output, "now") {
		t.Fatalf("%q", r.Output)
	}
}

func TestP14_EmptyIDs(t *testing.T) {
	p := begin(t)
	for range 3 {
		p.calls(call("", "now"), call("  ", "now"))
		for _, c := range p.State().Open {
			p.ran("noon", c.Call)
		}
	}
	paired(t, p.State().Transcript())
	if n := len(p.State().Transcript()); n != 10 { // nine, and the loop's nudge
		t.Fatalf("%d messages", n)
	}
}

func TestP15_AnIDAgain(t *testing.T) {
	p := begin(t)
	for n := range 2 {
		p.calls(callWith("sh_7", "send", `{}`), callWith("sh_7", "send", `{}`))
		for i, c := range p.State().Open {
			p.ran(fmt.Sprint(n, i), c.Call)
		}
	}
	m := p.State().Transcript()
	paired(t, m)
	var ids, results []string
	for _, m := range m {
		if m.Role == "tool" {
			ids, results = append(ids, m.CallID), append(results, m.Content)
		}
	}
	scenario.Equal(t, "ids", []string{"sh_7", "sh_7_2", "sh_7_3", "sh_7_4"}, ids)
	scenario.Equal(t, "results", []string{"0 0", "0 1", "1 0", "1 1"}, results)
	for i, e := range scenario.All[run.ToolStarted](p.Facts()) {
		if e.Key != "r1/"+ids[i] {
			t.Fatalf("key %q", e.Key)
		}
	}
}

func TestAnnouncedIDs(t *testing.T) {
	p := begin(t).model()
	r := p.reply("", "tool_calls", call("", "send"), call("", "now"), call("x", "save"))
	r.Shown = run.Shown{Cuts: "p p p", Pending: []run.PendingCall{{ID: "p1", Name: "now"}, {ID: "p2", Name: "now"}, {ID: "x", Name: "send"}}}
	p.do(r)
	var got []string
	for _, e := range scenario.All[run.ToolCallRequested](p.Facts()) {
		got = append(got, e.Name+" "+e.Call)
	}
	// A call keeps the id under which its tool was announced; no other tool gets it.
	scenario.Equal(t, "calls", []string{"send x", "now p2", "save x_2"}, got)
}

func TestMaxCalls(t *testing.T) {
	var many []run.ProposedCall
	for range run.MaxCalls + 10 {
		many = append(many, call("", "now"))
	}
	if n := len(begin(t).calls(many...).State().Open); n != run.MaxCalls {
		t.Fatalf("%d calls", n)
	}
}

func TestHugeArguments(t *testing.T) {
	p := begin(t).calls(callWith("c1", "send", `{"x":"`+strings.Repeat("y", run.MaxArguments)+`"}`))
	req := scenario.Last[run.ToolCallRequested](p.RunCase)
	if len(req.Raw) != 1024 || string(req.Args) != "{}" || p.closed("c1").Reason != run.ReasonNotRun {
		t.Fatalf("%d bytes kept, %s", len(req.Raw), req.Args)
	}
}

func TestMetadataGoesBack(t *testing.T) {
	c := call("c1", "now")
	c.Metadata = json.RawMessage(`{"thought_signature":"abc"}`)
	p := begin(t).calls(c).ran("noon", "c1")
	if m := p.State().Transcript(); string(m[0].Calls[0].Metadata) != string(c.Metadata) {
		t.Fatalf("%+v", m)
	}
}

func TestTranscript_LeavesAnOpenRoundOut(t *testing.T) {
	p := begin(t).calls(call("c1", "now")).ran("noon", "c1").says("Text.", "tool_calls", call("c2", "now"), call("c3", "now")).ran("one", "c2")
	if m := p.State().Transcript(); len(m) != 2 {
		t.Fatalf("%+v", m)
	}
}

func TestTurn_OfARunThatLeftNothing(t *testing.T) {
	if m := begin(t).fails("bad_request", false).State().Turn(); m != nil {
		t.Fatalf("%+v", m)
	}
	if m := begin(t).model().State().Turn(); m != nil {
		t.Fatalf("not over: %+v", m)
	}
}

func TestResults_OfEarlierCalls(t *testing.T) {
	p := begin(t).calls(call("c1", "now"), call("c2", "now"))
	p.claimTool("c1", "c2")
	r := p.result("c1", "x")
	r.Data = json.RawMessage(`{"n":1}`)
	bad := p.result("c2", "y")
	bad.Success = false
	p.do(r, bad)
	scenario.Equal(t, "results", []json.RawMessage{r.Data}, p.State().Results("now"))
	p.calls(call("c3", "now")).claimTool("c3")
	r.Call, r.Data = "c3", json.RawMessage(`{"n":2}`)
	p.do(r)
	scenario.Equal(t, "results", []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`)}, p.State().Results("now"))
}

func TestP22_ARepairIsOnTheRecord(t *testing.T) {
	raw := "```json\n{\"to\": \"南京\", \"n\": 9007199254740993}\n```\nThat should do."
	p := begin(t).calls(callWith("c1", "send", raw))
	req := scenario.Last[run.ToolCallRequested](p.RunCase)
	if string(req.Args) != `{"to":"南京","n":9007199254740993}` || len(req.Repairs) != 2 || req.Raw != raw || req.Problem != "" {
		t.Fatalf("%+v", req)
	}
	p.Due(moment(0), run.CallTool{Call: "c1", Attempt: 1})
	whole := begin(t).calls(callWith("c1", "send", `{"to":"x"}`))
	if req := scenario.Last[run.ToolCallRequested](whole.RunCase); req.Repairs != nil || req.Raw != "" {
		t.Fatalf("%+v", req)
	}
	nothing := begin(t).calls(callWith("c1", "send", "send it, please"))
	if r := nothing.closed("c1"); r.Success || r.Reason != run.ReasonNotRun || strings.Count(r.Error, "JSON object") != 1 || !strings.HasPrefix(r.Error, "the arguments are not a valid JSON object: ") {
		t.Fatalf("%+v", r)
	}
}
