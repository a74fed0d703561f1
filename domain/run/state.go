package run

import (
	"encoding/json"
	"slices"
	"time"

	"refold/domain/tool"
)

// Status of a call.
const (
	CallRequested = "requested" // may be claimed, unless an approval is pending
	CallRunning   = "running"   // claimed
	CallUnknown   = "unknown"   // lost; waits for a person
	CallClosed    = "closed"
)

// Outcome of a run; "" while it is open.
const (
	OutcomeCompleted = "completed"
	OutcomeFailed    = "failed"
	OutcomeStopped   = "stopped"
)

// State is the fold of a run's events. The zero value is a run that has not
// started. Use a State linearly: after Evolve(s, e), go on with the result.
type State struct {
	Start *RunStarted

	Round      int         // the current round, from 0
	ModelCalls int         // model calls started
	Model      *ModelClaim // the open model call
	Failures   int         // failed attempts at the call that is due
	Lost       int         // lost attempts at it
	RetryAt    time.Time   // no attempt before
	Switches   int         // fallback models moved on to
	Synthesis  string      // end reason that the synthesis stands for; "" in normal rounds
	Note       string      // of SynthesisRequested

	Open      []Call           // calls of the current round
	Approvals []Approval       // every approval of the run
	Steps     []Step           // replies, finished rounds and nudges, in order, for the transcript
	consumed  bool             // the current round had calls, and all are closed
	results   int              // calls closed by an answer of their tool
	Waiting   []MessageSteered // messages of people that the next round reads
	steered   []string         // ids of all of them
	announced []string         // ids of calls that readers were shown by replies so far
	late      []string         // calls whose true outcome became known after they were closed

	memory

	Nudges   int
	LastText string
	loop     loop

	Captions []string // what the images of the question show, for models that see none

	Usage Usage

	Outcome   string
	EndReason string
	Answer    string // the answer, or the text that is kept
	Degraded  bool
	ErrorCode string
	Error     string
	EndedAt   time.Time
}

// ModelClaim is an open model call.
type ModelClaim struct {
	ModelCallStarted
}

// Call is a tool call of the run.
type Call struct {
	ToolCallRequested
	Status   string
	Attempt  int // attempts claimed
	Owner    string
	Deadline time.Time
	Key      string
	Approval string // id of the pending approval, "" if none
	Cleared  bool   // a person approved, or nobody has to
	Result   *ToolCompleted
}

// Approval is an approval of the run; Outcome is "" while it is pending.
type Approval struct {
	ApprovalRequired
	Outcome string
}

// Step is a finished piece of the transcript; one field is set: a reply, the
// calls of the reply before it, all closed, a nudge, or a person's message.
type Step struct {
	Thought *Thought
	Calls   []Call
	Nudge   *Nudged
	Steer   *MessageSteered
}

// Over tells whether the run has its terminal event.
func (s State) Over() bool { return s.Outcome != "" }

// Begun tells whether the run has been started.
func (s State) Begun() bool { return s.Start != nil }

// nextRound is the round that the next model call belongs to: a reply without
// calls consumes none.
func (s State) nextRound() int {
	if s.preparing() {
		return s.Round
	}
	if s.consumed || len(s.Open) > 0 {
		return s.Round + 1
	}
	return s.Round
}

// ModelName is the model that the next call asks.
func (s State) ModelName() string {
	if s.Switches == 0 || s.Switches > len(s.Start.Agent.Fallbacks) {
		return s.Start.Agent.Model
	}
	return s.Start.Agent.Fallbacks[s.Switches-1]
}

// rounds counts the rounds that were begun.
func (s State) rounds() int {
	if s.ModelCalls == s.memory.calls {
		return 0
	}
	return s.Round + 1
}

// Tool finds the definition that the run was started with.
func (s State) Tool(name string) (tool.Definition, bool) {
	if s.Start == nil {
		return tool.Definition{}, false
	}
	for _, d := range s.Start.Tools {
		if d.Name == name {
			return d, true
		}
	}
	return tool.Definition{}, false
}

// FindCall finds a call of the current or an earlier round.
func (s State) FindCall(id string) (Call, bool) {
	for _, c := range s.Open {
		if c.Call == id {
			return c, true
		}
	}
	for i := len(s.Steps) - 1; i >= 0; i-- {
		for _, c := range s.Steps[i].Calls {
			if c.Call == id {
				return c, true
			}
		}
	}
	return Call{}, false
}

// FindApproval finds an approval by id.
func (s State) FindApproval(id string) (Approval, bool) {
	for _, a := range s.Approvals {
		if a.Approval == id {
			return a, true
		}
	}
	return Approval{}, false
}

// Results implements tool.State: the data of the successful calls of a tool.
func (s State) Results(name string) []json.RawMessage {
	var out []json.RawMessage
	add := func(cs []Call) {
		for _, c := range cs {
			if c.Name == name && c.Result != nil && c.Result.Success {
				out = append(out, c.Result.Data)
			}
		}
	}
	for _, st := range s.Steps {
		add(st.Calls)
	}
	add(s.Open)
	return out
}

// References are the evidence of the run: what its calls have found, and what of
// earlier turns its texts cite; at most tool.MaxReferences.
func (s State) References() []tool.Reference {
	var out []tool.Reference
	add := func(cs []Call) {
		for _, c := range cs {
			if c.Result != nil && c.Result.Success {
				out, _ = tool.AddReferences(out, tool.ReferencesOf(c.Result.Data))
			}
		}
	}
	for _, st := range s.Steps {
		add(st.Calls)
		if st.Thought != nil {
			out, _ = tool.AddReferences(out, st.Thought.References)
		}
	}
	add(s.Open)
	return out
}

// CallID gives the id that the call at index of the reply to the open model
// call gets: the provider's, made well-formed, and unique in the run, also among
// the ids that a failed attempt has announced: readers were told what became of
// those.
func (s State) CallID(raw, name string, index int, taken map[string]bool) string {
	id := tool.NormalizeCallID(raw, name, s.Round, index)
	return tool.UniqueCallID(id, func(id string) bool {
		_, used := s.FindCall(id)
		return used || taken[id] || slices.Contains(s.announced, id)
	})
}
