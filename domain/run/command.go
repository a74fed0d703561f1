package run

import (
	"encoding/json"
	"time"

	"refold/domain/tool"
)

// Command is a request or a report. Requests (Start, Stop, ResolveApproval) may
// be refused. Claims are granted only if Due lists that very effect. Reports
// (RecordReply, RecordFailure, RecordTool, RecordLost...) state what happened:
// a duplicate yields no events and no error.
type Command interface{ command() }

// Start opens a run. Everything is decided by the caller; Decide checks that it
// is complete and that the run is new.
type Start struct{ RunStarted }

// Moment is what a process knows when it asks what is due: the time, its own
// instance id, and which owners of claims are gone. Sole says that no other
// process can work on this log (the embedded store's exclusive lock), so every
// other owner is gone.
type Moment struct {
	Now  time.Time
	Self string
	Sole bool
	Gone []string
}

// ClaimModel asks for the next model call.
type ClaimModel struct {
	Moment
	Round, Attempt int
	Purpose        string
	Size, Counted  int // of the request, see ModelCallStarted
	Dropped        int
	Deadline       time.Time // when the claim becomes void
}

// ClaimTool asks to run a call. ToolHash is that of the definition about to
// run; if it is not the one that the run was started with, the claim of a tool
// that changes the world is refused with ErrDefinitionChanged.
type ClaimTool struct {
	Moment
	Call     string
	Attempt  int
	ToolHash string
	Key      string
	Deadline time.Time
}

// RecordReply reports the reply to a model call.
type RecordReply struct {
	Call          int
	Text          string
	Reasoning     string
	Calls         []ProposedCall
	Finish        string
	Model         string
	Usage         Usage
	Shown         Shown
	RequestDigest string
	Archive       string // see RecordFailure
	Duration      time.Duration
	Now           time.Time
	References    []tool.Reference // see Thought
}

// ProposedCall is a tool call as the model wrote it.
type ProposedCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // opaque, sent back as it is
	Unknown   []string        `json:"-"`                  // handles in the arguments that stand for nothing; the call can't run
}

// RecordFailure reports that a model call gave no reply. Archive is what stands
// for the older messages if this was the last attempt at a summary. Limit and
// Requested are the tokens that a refusal as too long has named, 0 if none.
type RecordFailure struct {
	Call       int
	Code       string
	Status     int
	Message    string
	Transient  bool
	RetryAfter time.Duration
	Text       string
	Reasoning  string
	Shown      Shown
	Archive    string
	Limit      int
	Requested  int
	Now        time.Time
}

// RecordTool reports what a tool answered.
type RecordTool struct {
	Call     string
	Attempt  int
	Success  bool
	Output   string
	Error    string
	Data     json.RawMessage
	Result   string
	Size     int
	Duration time.Duration
	Now      time.Time
}

// RefuseCall closes a call that can't be run at all (its tool is gone or has
// changed), before any attempt.
type RefuseCall struct {
	Call    string
	Message string
	Now     time.Time
}

// RecordLostModel reports that the owner of the open model call is gone; Text,
// Reasoning and Shown are what it had shown.
type RecordLostModel struct {
	Moment
	Call      int
	Text      string
	Reasoning string
	Shown     Shown
}

// RecordLostTool reports that a running attempt ended without a result: its
// owner is gone, or gives it up. Reason is for people, "" for a gone owner.
type RecordLostTool struct {
	Moment
	Call    string
	Attempt int
	Reason  string
}

// ResolveApproval is a person's answer: Approve or not. Args, if set, replaces
// the arguments and must be a JSON object.
type ResolveApproval struct {
	Approval string
	Approve  bool
	Reason   string
	By       string
	Args     json.RawMessage
	Now      time.Time
}

// ExpireApproval reports that nobody answered in time.
type ExpireApproval struct {
	Approval string
	Now      time.Time
}

// Expire reports that the run's own deadline has passed.
type Expire struct{ Now time.Time }

// Steer hands a person's message to the run in progress.
type Steer struct {
	Message string
	Text    string
	By      string
	Now     time.Time
}

// Stop ends the run now. Text, Reasoning and Shown are what the model call Call
// (0 if none is open) had shown; its delta stream is closed before.
type Stop struct {
	By        string
	Reason    string
	Call      int
	Text      string
	Reasoning string
	Shown     Shown
	Now       time.Time
}

func (Start) command()           {}
func (ClaimModel) command()      {}
func (ClaimTool) command()       {}
func (RecordReply) command()     {}
func (RecordFailure) command()   {}
func (RecordTool) command()      {}
func (RefuseCall) command()      {}
func (RecordLostModel) command() {}
func (RecordLostTool) command()  {}
func (ResolveApproval) command() {}
func (ExpireApproval) command()  {}
func (Expire) command()          {}
func (Steer) command()           {}
func (Stop) command()            {}
