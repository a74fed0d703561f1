package run

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"refold/domain/tool"
)

// decideReply says what one model reply means. Everything that follows from it
// is in the same append: the calls, the approvals that they need, or the end.
func decideReply(s State, c RecordReply) []Event {
	if s.Over() || s.Model == nil || s.Model.Call != c.Call {
		return nil // a duplicate, or the fence has fallen: the run does not go on
	}
	th := Thought{Call: c.Call, Round: s.Model.Round, Purpose: s.Model.Purpose, Text: c.Text, Reasoning: c.Reasoning,
		Finish: c.Finish, Model: c.Model, Usage: c.Usage, Shown: c.Shown, RequestDigest: c.RequestDigest,
		DurationMS: c.Duration.Milliseconds(), At: c.Now, References: c.References}
	if s.Model.Purpose == PurposeMemory {
		return decideMemory(s, c)
	}
	if s.Model.Purpose == PurposeSynthesis {
		return decideSynthesis(s, th)
	}
	calls := c.Calls
	if len(calls) > MaxCalls {
		calls = calls[:MaxCalls]
	}
	switch {
	case c.Finish == EndContentFilter:
		return decideFiltered(s, th, calls)
	case len(calls) > 0:
		return append([]Event{th}, requestCalls(s, th, calls, c.Finish)...)
	}
	return decideText(s, th)
}

// decideText handles a reply without calls.
func decideText(s State, th Thought) []Event {
	if blank(th.Text) {
		return s.nudge(th, "empty", NudgeEmpty)
	}
	if s.markup(th.Text) {
		return s.nudge(th, "markup", NudgeMarkup)
	}
	if len(s.Waiting) > 0 {
		return []Event{th} // a person has said something since: the run goes on
	}
	switch {
	case th.Text == s.LastText:
		return s.complete(th, th.Text, EndStuck)
	case naturalStop(th.Finish):
		return s.complete(th, th.Text, EndNatural)
	case th.Finish == "length":
		return s.complete(th, th.Text, EndLength)
	}
	// An unknown finish reason: the text may be the answer. It is asked for
	// again, and a second equal text is taken; nothing can spin.
	return s.nudge(th, "unfinished", NudgeUnfinished)
}

// markup tells whether text is a tool call that the model wrote instead of
// making it.
func (s State) markup(text string) bool {
	known := func(name string) bool { _, ok := s.Tool(name); return ok }
	calls, cut := tool.TextCalls(text, known)
	return len(calls) > 0 || cut
}

// nudge asks the model once more; when the nudges are used up the run ends with
// a fixed text. Unfinished text that no nudge is left for is the answer.
func (s State) nudge(th Thought, reason string, text FixedText) []Event {
	if s.Nudges >= MaxNudges {
		if text == NudgeUnfinished {
			return s.complete(th, th.Text, EndStuck)
		}
		return append([]Event{th}, Evolve(s, th).completed(s.text(TextEmptyFallback), 0, EndEmpty, false, th.At))
	}
	return []Event{th, Nudged{Reason: reason, Text: s.text(text), At: th.At}}
}

func (s State) complete(th Thought, answer, reason string) []Event {
	return []Event{th, Evolve(s, th).completed(answer, th.Call, reason, false, th.At)}
}

func (s State) completed(answer string, call int, reason string, degraded bool, at time.Time) RunCompleted {
	return RunCompleted{Answer: answer, Call: call, EndReason: reason, Degraded: degraded, Fallback: s.NothingFound(), Usage: s.Usage,
		Rounds: s.rounds(), DurationMS: s.elapsed(at), At: at}
}

// decideFiltered: calls of a filtered reply never run, and the run ends.
func decideFiltered(s State, th Thought, calls []ProposedCall) []Event {
	out := []Event{th}
	taken := map[string]bool{}
	for i, p := range calls {
		req := s.request(th, p, i, taken)
		taken[req.Call] = true
		req.Problem = "the reply was withheld by the provider's content filter"
		out = append(out, req, notRun(req, th.At))
	}
	s = Evolve(s, th)
	if blank(th.Text) {
		return append(out, s.completed(s.text(TextFiltered), 0, EndContentFilter, false, th.At))
	}
	return append(out, s.completed(th.Text, th.Call, EndContentFilter, false, th.At))
}

// requestCalls turns the calls of a reply into facts. A call that can't run is
// closed in the same append, so no prompt is ever built on a call without its
// result.
func requestCalls(s State, th Thought, calls []ProposedCall, finish string) []Event {
	var out []Event
	taken := map[string]bool{}
	allClosed := true
	closed := make([]Call, 0, len(calls))
	for i, p := range calls {
		req := s.request(th, p, i, taken)
		taken[req.Call] = true
		if finish == "length" && req.Problem == "" && len(req.Repairs) > 0 {
			req.Problem = "the reply was cut off by the token limit in the middle of this call; make the call again, complete"
		}
		out = append(out, req)
		if req.Problem != "" {
			done := notRun(req, th.At)
			out = append(out, done)
			closed = append(closed, Call{ToolCallRequested: req, Status: CallClosed, Result: &done})
			continue
		}
		allClosed = false
		if a, ask := s.approvalFor(req, th.At); ask {
			out = append(out, a)
		}
	}
	if allClosed {
		out = append(out, Evolve(s, th).afterRound(closed, th.At)...)
	}
	return out
}

// request makes the fact for one proposed call, with Problem set if it can't run.
func (s State) request(th Thought, p ProposedCall, index int, taken map[string]bool) ToolCallRequested {
	name := tool.NormalizeName(p.Name)
	id := s.announcedAs(th.Shown.Pending, name, index, taken)
	if id == "" {
		used := maps.Clone(taken) // an announced id never gets another tool
		for _, a := range th.Shown.Pending {
			used[a.ID] = true
		}
		id = s.CallID(p.ID, name, index, used)
	}
	req := ToolCallRequested{Call: id, Round: th.Round, Index: index, Name: name, ProviderID: p.ID, Metadata: p.Metadata, At: th.At}
	args, err := tool.ParseArguments(p.Arguments)
	if len(p.Arguments) > MaxArguments {
		req.Args, req.Raw = json.RawMessage("{}"), strings.ToValidUTF8(p.Arguments[:1024], "")
		req.Problem = "the arguments are longer than " + strconv.Itoa(MaxArguments) + " bytes; split the call"
	} else if err != nil {
		req.Args, req.Raw = json.RawMessage("{}"), p.Arguments
		req.Problem = err.Error()
	} else {
		req.Args, req.Repairs = args.JSON, args.Repairs
		if len(args.Repairs) > 0 {
			req.Raw = p.Arguments
		}
	}
	canonical, err := tool.Canonical(req.Args)
	if err != nil {
		canonical = req.Args
	}
	req.Digest = tool.Digest(name, canonical)
	if req.Problem == "" && len(p.Unknown) > 0 {
		req.Problem = "these handles stand for nothing that was shown in this turn: " + strings.Join(p.Unknown, ", ") +
			"; use handles from the results of searches, and search again if you have none"
	}
	if _, ok := s.Tool(name); !ok && req.Problem == "" {
		req.Problem = unknownTool(s, name)
	}
	if s.quick() && req.Problem == "" {
		req.Problem = "no tools can be used in a quick answer; write the answer from what is given"
	}
	return req
}

// announcedAs gives the id under which readers were already shown the call: at
// its own place, or the first free one of the same tool (a provider's list may
// leave out what it began).
func (s State) announcedAs(pending []PendingCall, name string, index int, taken map[string]bool) string {
	fits := func(p PendingCall) bool { return p.Name == name && p.ID != "" && !taken[p.ID] }
	if index < len(pending) && fits(pending[index]) {
		return pending[index].ID
	}
	if i := slices.IndexFunc(pending, fits); i >= 0 {
		return pending[i].ID
	}
	return ""
}

func unknownTool(s State, name string) string {
	var known []string
	for _, d := range s.Start.Tools {
		known = append(known, d.Name)
	}
	if near := tool.Nearest(name, known); len(near) > 0 {
		return "there is no tool named " + quote(name) + "; the nearest are " + strings.Join(near, ", ")
	}
	if len(known) == 0 {
		return "there is no tool named " + quote(name) + "; no tools are offered in this run"
	}
	return "there is no tool named " + quote(name) + "; the tools are " + strings.Join(known, ", ")
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func notRun(req ToolCallRequested, at time.Time) ToolCompleted {
	return ToolCompleted{Call: req.Call, Error: req.Problem, Output: "Error: " + req.Problem + "\n" + tool.ErrorHint,
		Reason: ReasonNotRun, At: at}
}
