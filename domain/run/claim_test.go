package run_test

import (
	"testing"

	"refold/domain/run"
	"refold/domain/tool"
)

func as(self string, seconds float64) run.Moment { return run.Moment{Now: at(seconds), Self: self} }

func TestClaim_TwoWorkersRaceForTheModel(t *testing.T) {
	claim := func(self string) run.ClaimModel {
		return run.ClaimModel{Moment: as(self, 0), Attempt: 1, Purpose: run.PurposeRound, Deadline: at(130)}
	}
	p := begin(t).do(claim("w1")).Kinds("ModelCallStarted")
	p.refused(claim("w2"), run.ErrNotDue)
	p.refused(claim("w1"), run.ErrNotDue)
}

func TestClaim_TwoWorkersRaceForATool(t *testing.T) {
	p := begin(t).calls(call("c1", "send"))
	first, second := p.claim("c1"), p.claim("c1")
	second.Self = "w2"
	p.do(first).Kinds("ToolStarted")
	p.refused(second, run.ErrNotDue)
}

func TestClaim_OnlyWhatIsDue(t *testing.T) {
	p := begin(t)
	for _, c := range []run.ClaimModel{
		{Attempt: 2, Purpose: run.PurposeRound},
		{Attempt: 1, Round: 1, Purpose: run.PurposeRound},
		{Attempt: 1, Purpose: run.PurposeSynthesis},
	} {
		c.Moment, c.Deadline = p.moment(), at(100)
		p.refused(c, run.ErrNotDue)
	}
	p.fails("overloaded", true)
	p.refused(run.ClaimModel{Moment: moment(0.5), Attempt: 2, Purpose: run.PurposeRound, Deadline: at(100)}, run.ErrNotDue)
	p.later(1).calls(call("c1", "now"))
	again := p.claim("c1")
	again.Attempt = 2
	p.refused(again, run.ErrNotDue)
	again.Call = "c2"
	p.refused(again, run.ErrNotDue)
}

func TestClaim_NeedsOwnerKeyAndDeadline(t *testing.T) {
	p := begin(t)
	for _, c := range []run.ClaimModel{{Moment: as("", 0), Deadline: at(9)}, {Moment: as(me, 0), Deadline: at(0)}} {
		c.Attempt, c.Purpose = 1, run.PurposeRound
		if p.When(c); p.Err() == nil {
			t.Fatalf("granted: %+v", c)
		}
	}
	p.calls(call("c1", "now"))
	for _, change := range []func(*run.ClaimTool){
		func(c *run.ClaimTool) { c.Self = "" }, func(c *run.ClaimTool) { c.Key = "" }, func(c *run.ClaimTool) { c.Deadline = at(0) }} {
		c := p.claim("c1")
		change(&c)
		if p.When(c); p.Err() == nil {
			t.Fatalf("granted: %+v", c)
		}
	}
}

func TestClaim_ChangedDefinition(t *testing.T) {
	p := begin(t).calls(call("c1", "send"), call("c2", "now"))
	send, now := p.claim("c1"), p.claim("c2")
	send.ToolHash, now.ToolHash = "other", "other"
	p.refused(send, run.ErrDefinitionChanged)
	p.do(now).Kinds("ToolStarted") // a tool that only reads may have changed
	p.do(run.RefuseCall{Call: "c1", Message: "gone", Now: at(1)}).Kinds("ToolCompleted")
	if r := p.closed("c1"); r.Success || r.Reason != run.ReasonNotRun || r.Output != "Error: gone\n"+tool.ErrorHint {
		t.Fatalf("%+v", r)
	}
	p.do(run.RefuseCall{Call: "c1", Message: "gone", Now: at(1)}).Then()
	p.do(run.RefuseCall{Call: "c2", Message: "gone", Now: at(1)}).Then() // it runs
}

func TestRefuseCall_NotWhileAPersonDecides(t *testing.T) {
	begin(t).calls(call("c1", "pay")).do(run.RefuseCall{Call: "c1", Message: "gone", Now: at(1)}).Then()
}

func TestDue_OneToolAtATime(t *testing.T) {
	p := begin(t, sequential).calls(call("c1", "now"), call("c2", "pay"), call("c3", "now"))
	p.Due(moment(0), run.CallTool{Call: "c1", Attempt: 1})
	p.refused(p.claim("c3"), run.ErrNotDue)
	p.claimTool("c1").Due(moment(0))
	p.answered("c1", "noon").Due(moment(0)) // the second waits for a person, and the third for the second
	p.do(run.ResolveApproval{Approval: p.pending().Approval, Approve: true, Now: at(1)}).Due(moment(1), run.CallTool{Call: "c2", Attempt: 1})
	p.ran("paid", "c2").Due(moment(1), run.CallTool{Call: "c3", Attempt: 1})
}

func TestDue_ToolsInParallel(t *testing.T) {
	p := begin(t).calls(call("c1", "now"), call("c2", "pay"), call("c3", "now"))
	p.Due(moment(0), run.CallTool{Call: "c1", Attempt: 1}, run.CallTool{Call: "c3", Attempt: 1})
	p.ran("1", "c3").ran("2", "c1").Due(moment(0))
	p.do(run.ResolveApproval{Approval: p.pending().Approval, Approve: true, Now: at(1)}).ran("paid", "c2")
	p.Due(moment(1), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
	var order []string
	for _, m := range p.State().Transcript() {
		order = append(order, m.CallID)
	}
	if order[1] != "c1" || order[2] != "c2" || order[3] != "c3" {
		t.Fatalf("results in the order %q", order)
	}
}

// gone are the ways in which an owner is known to be gone.
var gone = map[string]run.Moment{
	"sole process": {Now: at(1), Self: "w2", Sole: true},
	"named":        {Now: at(1), Self: "w2", Gone: []string{"w0", me}},
	"deadline":     {Now: at(1000), Self: "w2"},
	"given up":     {Now: at(1), Self: me},
}

func TestLostModel(t *testing.T) {
	for name, m := range gone {
		t.Run(name, func(t *testing.T) {
			p := begin(t).model().Due(as("w2", 1))
			if name != "given up" {
				p.Due(m, run.RecoverModel{Call: 1})
			}
			lost := run.RecordLostModel{Moment: m, Call: 1, Text: "The ans", Shown: run.Shown{Cuts: "a7"}}
			p.do(lost).Then(run.ModelCallFailed{Call: 1, Attempt: 1, Purpose: run.PurposeRound, Code: run.CodeLost,
				Message: "the process that made the call is gone", Text: "The ans", Shown: run.Shown{Cuts: "a7"}, RetryAt: m.Now, At: m.Now})
			p.do(lost).Then()
			p.Due(m, run.CallModel{Attempt: 2, Purpose: run.PurposeRound})
		})
	}
	begin(t).model().do(run.RecordLostModel{Moment: as("w2", 1), Call: 1}).Then() // its owner lives
}

func TestLostModel_NotForEver(t *testing.T) {
	p := begin(t)
	for range run.MaxLost {
		p.open().model().do(run.RecordLostModel{Moment: p.moment(), Call: p.State().ModelCalls})
	}
	p.ended("failed", run.EndModelFailed, "")
}

func TestLostTool_ThatOnlyReads(t *testing.T) {
	for name, m := range gone {
		t.Run(name, func(t *testing.T) {
			p := begin(t).calls(call("c1", "now")).claimTool("c1").Due(as("w2", 1))
			if name != "given up" {
				p.Due(m, run.RecoverTool{Call: "c1", Attempt: 1})
			}
			lost := run.RecordLostTool{Moment: m, Call: "c1", Attempt: 1}
			p.do(lost).Then(run.ToolOutcomeUnknown{Call: "c1", Attempt: 1, Reason: "the process that ran the call is gone", Repeat: true, At: m.Now})
			p.do(lost).Then()
			p.Due(m, run.CallTool{Call: "c1", Attempt: 2})
		})
	}
	begin(t).calls(call("c1", "now")).claimTool("c1").do(run.RecordLostTool{Moment: as("w2", 1), Call: "c1", Attempt: 1}).Then()
}

func TestLostTool_KeepsItsIdempotencyKey(t *testing.T) {
	p := begin(t).calls(call("c1", "save")).claimTool("c1").do(run.RecordLostTool{Moment: moment(1), Call: "c1", Attempt: 1})
	second := p.claim("c1")
	second.Key = "another"
	p.do(second)
	if c, _ := p.State().FindCall("c1"); c.Key != "r1/c1" || c.Attempt != 2 {
		t.Fatalf("%+v", c)
	}
}

func TestLostTool_NotForEver(t *testing.T) {
	p := begin(t).calls(call("c1", "now"))
	for n := 1; n <= run.MaxAttempts; n++ {
		p.claimTool("c1").do(run.RecordLostTool{Moment: p.moment(), Call: "c1", Attempt: n})
	}
	p.Kinds("ToolOutcomeUnknown", "ToolCompleted").Due(moment(0), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
	if r := p.closed("c1"); r.Reason != run.ReasonUnknown {
		t.Fatalf("%+v", r)
	}
	p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Output: "noon", Now: at(9)}).Kinds("ToolCompleted")
	if p.closed("c1").Success {
		t.Fatal("a late outcome changes nothing")
	}
}

func TestLostTool_WithSideEffectsIsUnknown(t *testing.T) {
	unknown := func() *play {
		return begin(t).calls(call("c1", "send")).claimTool("c1").
			do(run.RecordLostTool{Moment: run.Moment{Now: at(1), Self: "w2", Sole: true}, Call: "c1", Attempt: 1}).
			Kinds("ToolOutcomeUnknown", "ApprovalRequired").Due(moment(2))
	}
	t.Run("asks", func(t *testing.T) {
		a := unknown().pending()
		if a.Trigger != run.TriggerRecovery || a.Call != "c1" || !a.Expires.Equal(at(1).Add(run.DefaultApprovalTimeout)) {
			t.Fatalf("%+v", a)
		}
	})
	t.Run("approved: runs again under the same key", func(t *testing.T) {
		p := unknown()
		p.do(run.ResolveApproval{Approval: p.pending().Approval, Approve: true, Now: at(3)}).Due(moment(3), run.CallTool{Call: "c1", Attempt: 2})
		p.ran("sent", "c1")
		if r := p.closed("c1"); !r.Success || r.Attempt != 2 {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("approved, and lost again: asked again", func(t *testing.T) {
		p := unknown()
		first := p.pending().Approval
		p.do(run.ResolveApproval{Approval: first, Approve: true, Now: at(3)}).claimTool("c1").
			do(run.RecordLostTool{Moment: p.moment(), Call: "c1", Attempt: 2}).Kinds("ToolOutcomeUnknown", "ApprovalRequired")
		if p.pending().Approval == first {
			t.Fatal("the first decision would count twice")
		}
	})
	t.Run("rejected", func(t *testing.T) {
		p := unknown()
		p.do(run.ResolveApproval{Approval: p.pending().Approval, Reason: "it arrived", Now: at(3)}).Kinds("ApprovalResolved", "ToolCompleted")
		if r := p.closed("c1"); r.Reason != run.ReasonUnknown || r.Success {
			t.Fatalf("%+v", r)
		}
		p.Due(moment(3), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound})
	})
	t.Run("nobody answers", func(t *testing.T) {
		p := unknown()
		a := p.pending()
		p.Due(moment(700), run.LapseApproval{Approval: a.Approval})
		p.do(run.ExpireApproval{Approval: a.Approval, Now: at(700)}).Kinds("ApprovalResolved", "ToolCompleted")
		p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Output: "sent", Now: at(701)}).Kinds("ToolCompleted")
	})
	t.Run("the outcome becomes known after all", func(t *testing.T) {
		p := unknown()
		a := p.pending().Approval
		p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Output: "sent", Now: at(4)}).Kinds("ApprovalResolved", "ToolCompleted")
		if !p.closed("c1").Success {
			t.Fatal("not the true outcome")
		}
		p.refused(run.ResolveApproval{Approval: a, Approve: true, Now: at(5)}, run.ErrAlreadyResolved)
	})
}

func TestFirstAnswerCounts(t *testing.T) {
	p := begin(t).calls(call("c1", "now"), call("c2", "now")).claimTool("c1").do(run.RecordLostTool{Moment: moment(1), Call: "c1", Attempt: 1}).claimTool("c1")
	p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Output: "first", Now: at(2)}).Kinds("ToolCompleted")
	p.do(run.RecordTool{Call: "c1", Attempt: 2, Success: true, Output: "second", Now: at(3)}).Then()
	p.do(run.RecordTool{Call: "c2", Attempt: 1, Success: true, Output: "never claimed", Now: at(3)}).Then()
	p.do(run.RecordTool{Call: "c9", Attempt: 1, Success: true, Output: "nobody's", Now: at(3)}).Then()
}
