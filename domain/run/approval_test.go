package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/tests/scenario"
)

func TestA34_ApprovalIsAskedWithTheCall(t *testing.T) {
	p := begin(t).calls(callWith("c1", "pay", `{"to":"a@example.test","n":9007199254740993}`))
	p.Kinds("Thought", "ToolCallRequested", "ApprovalRequired").Due(moment(1))
	a, req, def := p.pending(), scenario.Last[run.ToolCallRequested](p.RunCase), tools()[1]
	scenario.Equal(t, "approval", run.ApprovalRequired{Approval: a.Approval, Call: "c1", Trigger: run.TriggerPolicy, Tool: "pay", ToolHash: def.Hash(),
		Args: json.RawMessage(`{"to":"a@example.test","n":9007199254740993}`), Digest: req.Digest,
		Question: "The agent wants to run pay with these arguments.", Expires: at(600), At: at(0)}, a.ApprovalRequired)
	if w := run.NextWake(p.State(), at(1)); !w.Equal(at(600)) {
		t.Fatalf("wakes at %v", w)
	}
	p.refused(p.claim("c1"), run.ErrNotDue)
}

func TestA38_RiskyArguments(t *testing.T) {
	for name, c := range map[string]struct {
		tool, args string
		want       bool
	}{
		"dangerous": {"send", `{"sql":"DROP TABLE users"}`, true},
		"harmless":  {"send", `{"sql":"SELECT 1"}`, false},
		"reads":     {"now", `{"sql":"DROP TABLE users"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t).calls(callWith("c1", c.tool, c.args))
			if got := len(p.State().Approvals) == 1; got != c.want {
				t.Fatalf("asked: %v", got)
			}
			if c.want && p.pending().Trigger != run.TriggerRisky {
				t.Fatalf("%+v", p.pending())
			}
		})
	}
}

func TestA34_ApproveOnce(t *testing.T) {
	p := begin(t).calls(call("c1", "pay"))
	yes := run.ResolveApproval{Approval: p.pending().Approval, Approve: true, By: "u", Reason: "fine", Now: at(2)}
	p.do(yes).Then(run.ApprovalResolved{Approval: yes.Approval, Call: "c1", Outcome: run.Approved, Reason: "fine", By: "u", At: at(2)})
	p.refused(yes, run.ErrAlreadyResolved)
	p.refused(run.ResolveApproval{Approval: yes.Approval, Now: at(3)}, run.ErrAlreadyResolved)
	p.refused(run.ResolveApproval{Approval: "other", Now: at(3)}, run.ErrApprovalNotFound)
	p.Due(moment(2), run.CallTool{Call: "c1", Attempt: 1}).ran("paid", "c1")
	p.Due(moment(2), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
}

func TestA34_Reject(t *testing.T) {
	p := begin(t).calls(call("c1", "pay"))
	id := p.pending().Approval
	text := "a person rejected this call; it did not run. Their reason: too dear"
	p.do(run.ResolveApproval{Approval: id, By: "u", Reason: "too dear", Now: at(2)}).Then(
		run.ApprovalResolved{Approval: id, Call: "c1", Outcome: run.Rejected, Reason: "too dear", By: "u", At: at(2)},
		run.ToolCompleted{Call: "c1", Output: "Error: " + text + "\n" + tool.ErrorHint, Error: text, Reason: run.ReasonRejected, At: at(2)})
	p.Due(moment(2), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
	p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Now: at(3)}).Then()
}

func TestA34_ModifiedArguments(t *testing.T) {
	p := begin(t).calls(callWith("c1", "pay", `{"n":1}`))
	id := p.pending().Approval
	for _, bad := range []string{`null`, `[1]`, `"x"`, `7`, `{"n":`, `{"n":1}{}`} {
		p.refused(run.ResolveApproval{Approval: id, Approve: true, Args: json.RawMessage(bad), Now: at(1)}, run.ErrBadArguments)
	}
	p.do(run.ResolveApproval{Approval: id, Approve: true, Args: json.RawMessage(` {"to":"b", "n":9007199254740993} `), Now: at(2)})
	res := scenario.Last[run.ApprovalResolved](p.RunCase)
	if string(res.Args) != `{"n":9007199254740993,"to":"b"}` || res.Digest != tool.Digest("pay", res.Args) {
		t.Fatalf("%s %s", res.Args, res.Digest)
	}
	// P55: what runs, and what the model is told that it called, is what was agreed to.
	c, _ := p.State().FindCall("c1")
	if string(c.Args) != string(res.Args) || c.Digest != res.Digest {
		t.Fatalf("runs with %s", c.Args)
	}
	if m := p.ran("paid", "c1").State().Transcript(); m[0].Calls[0].Arguments != string(res.Args) {
		t.Fatalf("transcript: %s", m[0].Calls[0].Arguments)
	}
}

func TestP55_AnApprovalIsOfOneToolAndItsArguments(t *testing.T) {
	shown := begin(t).calls(callWith("c1", "pay", `{"to":"a@example.test","n":9007199254740993}`)).pending()
	for name, c := range map[string]struct {
		proposed run.ProposedCall
		same     bool
	}{
		"same":            {callWith("c1", "pay", `{"n":9007199254740993,"to":"a@example.test"}`), true},
		"other arguments": {callWith("c1", "pay", `{"to":"b@example.test","n":9007199254740993}`), false},
		"other number":    {callWith("c1", "pay", `{"to":"a@example.test","n":9007199254740992}`), false},
		"only another id": {callWith("c7", "pay", `{"to":"a@example.test","n":9007199254740993}`), true},
	} {
		if got := begin(t).calls(c.proposed).pending().Digest == shown.Digest; got != c.same {
			t.Fatalf("%s: the same digest: %v", name, got)
		}
	}
	// A changed tool can't run on the old approval.
	p := begin(t).calls(call("c1", "pay"))
	p.do(run.ResolveApproval{Approval: p.pending().Approval, Approve: true, Now: at(1)})
	changed := p.claim("c1")
	changed.ToolHash = "changed"
	p.refused(changed, run.ErrDefinitionChanged)
}

func TestP54_Expiry(t *testing.T) {
	p := begin(t, func(e *run.RunStarted) { e.Limits.ApprovalTimeout = 2e9 }).calls(call("c1", "pay"))
	id := p.pending().Approval
	p.do(run.ExpireApproval{Approval: id, Now: at(1.9)}).Then()
	p.Due(moment(1.9)).Due(moment(2), run.LapseApproval{Approval: id})
	p.refused(run.ResolveApproval{Approval: id, Approve: true, Now: at(2)}, run.ErrApprovalExpired) // nobody has recorded it yet
	p.do(run.ExpireApproval{Approval: id, Now: at(2)}).Kinds("ApprovalResolved", "ToolCompleted")
	r := p.closed("c1")
	if r.Reason != run.ReasonExpired || strings.Contains(r.Output, "rejected") || !strings.Contains(r.Output, "in time") {
		t.Fatalf("the model would take it for a refusal: %+v", r)
	}
	p.do(run.ExpireApproval{Approval: id, Now: at(3)}).Then()
	p.refused(run.ResolveApproval{Approval: id, Approve: true, Now: at(3)}, run.ErrApprovalExpired)
	p.says("No.", "stop").ended("completed", run.EndNatural, "No.")
}

func TestP81_NoApprovalAfterAStop(t *testing.T) {
	p := begin(t).calls(call("c1", "pay"))
	id := p.pending().Approval
	p.do(run.Stop{By: "u", Now: at(1)}).Kinds("ApprovalResolved", "ToolCompleted", "RunStopped")
	p.refused(run.ResolveApproval{Approval: id, Approve: true, Now: at(2)}, run.ErrAlreadyResolved)
	p.do(run.ExpireApproval{Approval: id, Now: at(5000)}).Then()
	p.ended("stopped", run.EndUser, "")
}

func TestP56_OneOfSeveralNeedsApproval(t *testing.T) {
	for _, approve := range []bool{true, false} {
		p := begin(t).calls(call("c1", "send"), call("c2", "pay"), call("c3", "send")).ran("1", "c1").ran("2", "c3").Due(moment(0))
		p.do(run.ResolveApproval{Approval: p.pending().Approval, Approve: approve, Now: at(1)})
		if approve {
			p.Due(moment(1), run.CallTool{Call: "c2", Attempt: 1}).ran("paid", "c2")
		}
		p.Due(moment(1), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
		results := map[string]int{}
		for _, e := range scenario.All[run.ToolCompleted](p.Facts()) {
			results[e.Call]++
		}
		scenario.Equal(t, "results", map[string]int{"c1": 1, "c2": 1, "c3": 1}, results)
	}
}

func TestP53_TheSameRequestAfterAReplay(t *testing.T) {
	p := begin(t).calls(call("c1", "pay"))
	id := p.pending().Approval
	again := scenario.Given(t, p.Facts()...) // another process folds the log
	again.When(run.ResolveApproval{Approval: id, Approve: true, Now: at(2)}).Kinds("ApprovalResolved").
		Due(moment(2), run.CallTool{Call: "c1", Attempt: 1})
}
