package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"refold/domain/tool"
)

// approvalFor says whether a call needs a person before it runs, and makes the
// request. The tool's definition or the arguments decide, both as they were
// when the run was started.
func (s State) approvalFor(req ToolCallRequested, at time.Time) (ApprovalRequired, bool) {
	def, ok := s.Tool(req.Name)
	if !ok {
		return ApprovalRequired{}, false
	}
	if def.Approval {
		return s.ask(req, def, TriggerPolicy, 0, "The agent wants to run "+req.Name+" with these arguments.", at), true
	}
	if def.Effect != tool.ReadOnly {
		if reason, risky := tool.Risky(req.Args); risky {
			return s.ask(req, def, TriggerRisky, 0, "The agent wants to run "+req.Name+"; the arguments look dangerous: "+reason+".", at), true
		}
	}
	return ApprovalRequired{}, false
}

func (s State) ask(req ToolCallRequested, def tool.Definition, trigger string, attempt int, question string, at time.Time) ApprovalRequired {
	return ApprovalRequired{Approval: s.approvalID(req.Call, trigger, attempt), Call: req.Call, Trigger: trigger, Tool: req.Name,
		ToolHash: def.Hash(), Args: req.Args, Digest: req.Digest, Question: question,
		Expires: at.Add(s.Start.Limits.approvalTimeout()), At: at}
}

// approvalID derives the id from what is asked, in UUID form: asking the same
// again gives the same id, on any process.
func (s State) approvalID(call, trigger string, attempt int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", s.Start.Run, call, trigger, attempt))
	h[6] = h[6]&0x0f | 0x80
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// decideResolve records a person's decision, once. A decision after the expiry
// is refused also if nobody has recorded the expiry yet.
func decideResolve(s State, c ResolveApproval) ([]Event, error) {
	a, ok := s.FindApproval(c.Approval)
	if !ok {
		return nil, ErrApprovalNotFound
	}
	if a.Outcome == TimedOut || a.Outcome == "" && !c.Now.Before(a.Expires) {
		return nil, ErrApprovalExpired
	}
	if a.Outcome != "" || s.Over() {
		return nil, ErrAlreadyResolved
	}
	call, _ := s.FindCall(a.Call)
	res := ApprovalResolved{Approval: a.Approval, Call: a.Call, Outcome: Rejected, Reason: c.Reason, By: c.By, At: c.Now}
	if c.Approve {
		res.Outcome = Approved
		if len(c.Args) > 0 {
			args, err := objectArgs(c.Args)
			if err != nil {
				return nil, ErrBadArguments
			}
			res.Args, res.Digest = args, tool.Digest(call.Name, args)
		}
		return []Event{res}, nil
	}
	done := ToolCompleted{Call: a.Call, Attempt: call.Attempt, Reason: ReasonRejected, At: c.Now}
	why := ""
	if c.Reason != "" {
		why = " Their reason: " + c.Reason
	}
	if a.Trigger == TriggerRecovery {
		done.Reason = ReasonUnknown
		done.Error = "the outcome of an earlier attempt is unknown, and a person decided not to run it again." + why
	} else {
		done.Error = "a person rejected this call; it did not run." + why
	}
	done.Output = "Error: " + done.Error + "\n" + tool.ErrorHint
	return append([]Event{res, done}, s.afterClosing(done, c.Now)...), nil
}

func objectArgs(raw json.RawMessage) (json.RawMessage, error) {
	t := bytes.TrimSpace(raw)
	if len(t) == 0 || t[0] != '{' {
		return nil, ErrBadArguments
	}
	return tool.Canonical(t)
}

// decideExpireApproval closes an approval that nobody answered in time. The
// model is told that it was time that closed it, not a person.
func decideExpireApproval(s State, c ExpireApproval) []Event {
	a, ok := s.FindApproval(c.Approval)
	if !ok || a.Outcome != "" || s.Over() || c.Now.Before(a.Expires) {
		return nil
	}
	call, _ := s.FindCall(a.Call)
	text := "nobody answered the request for approval in time; the call did not run"
	if a.Trigger == TriggerRecovery {
		text = "the outcome of an earlier attempt is unknown, and nobody decided in time whether to run it again"
	}
	done := ToolCompleted{Call: a.Call, Attempt: call.Attempt, Reason: ReasonExpired, Error: text,
		Output: "Error: " + text + "\n" + tool.ErrorHint, At: c.Now}
	out := []Event{ApprovalResolved{Approval: a.Approval, Call: a.Call, Outcome: TimedOut, Reason: "approval timeout", At: c.Now}, done}
	return append(out, s.afterClosing(done, c.Now)...)
}
