package run

import (
	"encoding/json"
	"time"

	"refold/domain"
	"refold/domain/tool"
)

// Event is a fact about a run. The set is closed; wire.go lists it.
type Event interface{ event() }

// RunStarted opens the stream with everything that later decisions need, so
// that a replay next year decides the same.
type RunStarted struct {
	Run         string            `json:"run"`
	Session     string            `json:"session"`
	UserMessage string            `json:"user_message"`
	Request     string            `json:"request,omitempty"` // the request id, shown in every frame
	Principal   string            `json:"principal,omitempty"`
	Channel     string            `json:"channel,omitempty"`
	Query       string            `json:"query"`
	Language    string            `json:"language"` // "zh" or "en": of fixed texts
	Agent       Agent             `json:"agent"`
	AgentHash   string            `json:"agent_hash"`
	Tools       []tool.Definition `json:"tools,omitempty"` // sorted by name
	Mode        string            `json:"mode,omitempty"`  // ModeQuick, or "": rounds with tools
	Quick       *Quick            `json:"quick,omitempty"` // of ModeQuick
	Scope       tool.Scope        `json:"scope,omitzero"`  // the knowledge that it may see
	Knowledge   []Knowledge       `json:"knowledge,omitempty"`
	Pinned      []Pinned          `json:"pinned,omitempty"` // documents that the person named
	Retrieval   tool.Retrieval    `json:"retrieval,omitzero"`
	Web         bool              `json:"web,omitempty"` // it may search the web
	Workspace   string            `json:"workspace,omitempty"`
	Images      []domain.Media    `json:"images,omitempty"` // of the question
	Files       []domain.Media    `json:"files,omitempty"`
	History     []string          `json:"history,omitempty"` // earlier runs of the session, oldest first
	Limits      Limits            `json:"limits"`
	Deadline    time.Time         `json:"deadline,omitzero"`
	At          time.Time         `json:"at"`
}

// Agent is the effective configuration of the agent at the start of the run.
type Agent struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	SystemPrompt  string   `json:"system_prompt"`
	Model         string   `json:"model"`               // name of a configured model
	Fallbacks     []string `json:"fallbacks,omitempty"` // models to move on to, in order
	Temperature   float64  `json:"temperature"`
	MaxTokens     int      `json:"max_tokens,omitempty"` // completion tokens, 0 = the provider's default
	Thinking      bool     `json:"thinking"`
	ParallelTools bool     `json:"parallel_tools"`
	KeepRetrieval bool     `json:"keep_retrieval,omitempty"` // old results of retrieval stay in the history
	Uncited       bool     `json:"uncited,omitempty"`        // the answer shows no citations
}

// Limits bound a run. The zero value of a field means its default in policy.go.
type Limits struct {
	MaxRounds       int           `json:"max_rounds"`
	ModelTimeout    time.Duration `json:"model_timeout"`
	ApprovalTimeout time.Duration `json:"approval_timeout"`
	MaxOutput       int           `json:"max_output"`               // runes of one tool result that the model sees
	ContextTokens   int           `json:"context_tokens,omitempty"` // of a request and its reply
}

// Purpose of a model call.
const (
	PurposeRound     = "round"
	PurposeSynthesis = "synthesis"
)

// ModelCallStarted claims the next model call for a process. Call counts the
// model calls of the run from 1. The claim is void at Deadline, or as soon as
// its owner is known to be gone. Size is the estimated size of the request in
// tokens, Counted what the counter said before it was corrected; 0 = unknown.
type ModelCallStarted struct {
	Call     int       `json:"call"`
	Round    int       `json:"round"` // from 0
	Attempt  int       `json:"attempt"`
	Purpose  string    `json:"purpose"`
	Owner    string    `json:"owner"`
	Size     int       `json:"size,omitempty"`
	Counted  int       `json:"counted,omitempty"`
	Dropped  int       `json:"dropped,omitempty"` // messages left out for lack of space
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// Thought is one whole reply of the model. Text is what it wrote, Reasoning
// what it thought; both are exactly what readers were shown (Shown tells in
// which pieces). What follows in the same append says what the reply means.
type Thought struct {
	Call          int       `json:"call"`
	Round         int       `json:"round"`
	Purpose       string    `json:"purpose"`
	Text          string    `json:"text"`
	Reasoning     string    `json:"reasoning,omitempty"`
	Finish        string    `json:"finish"`
	Model         string    `json:"model,omitempty"`
	Usage         Usage     `json:"usage"`
	Shown         Shown     `json:"shown"`
	RequestDigest string    `json:"request_digest,omitempty"` // sha256 of the exact request
	DurationMS    int64     `json:"duration_ms"`
	At            time.Time `json:"at"`

	References []tool.Reference `json:"references,omitempty"` // evidence of earlier turns that the text cites
}

// ModelCallFailed ends an attempt that gave no reply. RetryAt is set if another
// attempt follows. Text and Reasoning were shown before it failed.
type ModelCallFailed struct {
	Call      int       `json:"call"`
	Round     int       `json:"round"`
	Attempt   int       `json:"attempt"`
	Purpose   string    `json:"purpose"`
	Code      string    `json:"code"` // of the model error, or CodeLost
	Status    int       `json:"status,omitempty"`
	Message   string    `json:"message"`
	Text      string    `json:"text,omitempty"`
	Reasoning string    `json:"reasoning,omitempty"`
	Shown     Shown     `json:"shown"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	At        time.Time `json:"at"`
}

// CodeLost is the code of an attempt whose process died.
const CodeLost = "lost"

// ModelSwitched moves the run on to the next of its agent's fallback models,
// because the one before has failed in a way that trying again does not mend.
type ModelSwitched struct {
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Nudged is a message to the model that nobody typed, for example after an
// empty reply. Text is what the model reads.
type Nudged struct {
	Reason string    `json:"reason"` // empty, markup, unfinished, loop
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
}

// MessageSteered is a person's message to a run in progress. The model reads it
// with its next round; an answer that it was writing meanwhile does not end the
// run.
type MessageSteered struct {
	Message string    `json:"message"`
	Text    string    `json:"text"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at"`
}

// SynthesisRequested says that no further rounds follow: the model is asked
// once, without tools, for the best answer from what is known.
type SynthesisRequested struct {
	Reason string    `json:"reason"` // an end reason
	Note   string    `json:"note,omitempty"`
	At     time.Time `json:"at"`
}

// ToolCallRequested is one call that the model asks for. Args is a canonical
// JSON object; Raw is what the model wrote if that was not it. Problem is set
// when the call can't run; its failed result is in the same append.
type ToolCallRequested struct {
	Call       string          `json:"call"` // unique in the run
	Round      int             `json:"round"`
	Index      int             `json:"index"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	Raw        string          `json:"raw,omitempty"`
	Repairs    []string        `json:"repairs,omitempty"`
	Problem    string          `json:"problem,omitempty"`
	ProviderID string          `json:"provider_id,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Digest     string          `json:"digest"` // of name and args
	At         time.Time       `json:"at"`
}

// ToolStarted claims a call for a process. The tool runs only after this is
// durable. Key is the idempotency key, the same for every attempt.
type ToolStarted struct {
	Call     string    `json:"call"`
	Attempt  int       `json:"attempt"`
	Owner    string    `json:"owner"`
	Key      string    `json:"key"`
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// ToolCompleted closes a call with what the model will read (Output, cut to the
// limit). Result, if set, is the digest of the full output in the blob store.
// Reason says why a call was closed without its tool having answered.
type ToolCompleted struct {
	Call       string          `json:"call"`
	Attempt    int             `json:"attempt,omitempty"`
	Success    bool            `json:"success"`
	Output     string          `json:"output"`
	Error      string          `json:"error,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Result     string          `json:"result,omitempty"`
	Size       int             `json:"size,omitempty"` // runes of the full output
	DurationMS int64           `json:"duration_ms"`
	Reason     string          `json:"reason,omitempty"`
	Late       bool            `json:"late,omitempty"` // the true outcome of a call that was closed without it
	At         time.Time       `json:"at"`
}

// Reasons of ToolCompleted; "" means that the tool answered.
const (
	ReasonNotRun      = "not_run"         // refused before it ran
	ReasonNotStarted  = "not_started"     // the run was stopped first
	ReasonInterrupted = "interrupted"     // the run was stopped while it ran
	ReasonRejected    = "rejected"        // a person said no
	ReasonExpired     = "expired"         // nobody answered in time
	ReasonUnknown     = "unknown_outcome" // lost, and a person decided not to run it again
	ReasonDeadline    = "deadline"        // the run's own deadline came first
)

// ToolOutcomeUnknown says that a claimed attempt ended without a result. If the
// tool may run again, it does; else an ApprovalRequired follows in the append.
type ToolOutcomeUnknown struct {
	Call    string    `json:"call"`
	Attempt int       `json:"attempt"`
	Reason  string    `json:"reason"`
	Repeat  bool      `json:"repeat"` // runs again by itself
	At      time.Time `json:"at"`
}

// Triggers of an approval.
const (
	TriggerPolicy   = "policy"   // the tool's definition asks for it
	TriggerRisky    = "risky"    // the arguments match a dangerous pattern
	TriggerRecovery = "recovery" // the outcome of an earlier attempt is unknown
)

// ApprovalRequired asks a person. It is bound to the tool's definition and the
// digest of the arguments; the call waits until it is resolved or expires.
type ApprovalRequired struct {
	Approval string          `json:"approval"`
	Call     string          `json:"call"`
	Trigger  string          `json:"trigger"`
	Tool     string          `json:"tool"`
	ToolHash string          `json:"tool_hash"`
	Args     json.RawMessage `json:"args"`
	Digest   string          `json:"digest"`
	Question string          `json:"question"`
	Expires  time.Time       `json:"expires"`
	At       time.Time       `json:"at"`
}

// Outcomes of an approval.
const (
	Approved = "approved"
	Rejected = "rejected"
	TimedOut = "timed_out"
	Canceled = "canceled"
)

// ApprovalResolved is the one decision on an approval. Args replaces the call's
// arguments if the person changed them.
type ApprovalResolved struct {
	Approval string          `json:"approval"`
	Call     string          `json:"call"`
	Outcome  string          `json:"outcome"`
	Reason   string          `json:"reason,omitempty"`
	By       string          `json:"by,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	Digest   string          `json:"digest,omitempty"` // of the changed arguments
	At       time.Time       `json:"at"`
}

// RunCompleted ends a run with an answer.
type RunCompleted struct {
	Answer     string    `json:"answer"`
	Call       int       `json:"call,omitempty"` // the model call whose text the answer is; 0 for a fixed text
	EndReason  string    `json:"end_reason"`
	Degraded   bool      `json:"degraded,omitempty"`
	Fallback   bool      `json:"fallback,omitempty"` // nothing was found, the answer does without
	Source     string    `json:"source,omitempty"`   // of a fixed text that is an answer: SourceFAQ
	Usage      Usage     `json:"usage"`
	Rounds     int       `json:"rounds"`
	DurationMS int64     `json:"duration_ms"`
	At         time.Time `json:"at"`
}

// FallsBack tells whether the answer does without sources because nothing was
// found, or is a fixed text that answers nothing.
func (e RunCompleted) FallsBack() bool { return e.Fallback || e.Call == 0 && e.Source == "" }

// SourceFAQ says that an answer was taken from an FAQ entry as it stands.
const SourceFAQ = "faq"

// RunFailed ends a run without an answer. Text was shown and is kept.
type RunFailed struct {
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	EndReason  string    `json:"end_reason"`
	Text       string    `json:"text,omitempty"`
	Call       int       `json:"call,omitempty"` // the model call whose text it is
	Usage      Usage     `json:"usage"`
	Rounds     int       `json:"rounds"`
	DurationMS int64     `json:"duration_ms"`
	At         time.Time `json:"at"`
}

// RunStopped ends a run because somebody asked. Text is the answer so far. Call
// is the model call that was open, 0 if none; Shown are its pieces.
type RunStopped struct {
	By         string    `json:"by,omitempty"`
	Reason     string    `json:"reason"`
	Call       int       `json:"call,omitempty"`
	Text       string    `json:"text,omitempty"`
	Reasoning  string    `json:"reasoning,omitempty"`
	Shown      Shown     `json:"shown"`
	Usage      Usage     `json:"usage"`
	Rounds     int       `json:"rounds"`
	DurationMS int64     `json:"duration_ms"`
	At         time.Time `json:"at"`
}

// End reasons of a run.
const (
	EndNatural       = "natural"
	EndEmpty         = "empty"
	EndContentFilter = "content_filter"
	EndLength        = "length"
	EndStuck         = "stuck"
	EndMaxRounds     = "max_rounds"
	EndModelFailed   = "model_failed"
	EndUser          = "user"
	EndDeadline      = "deadline"
	EndIncomplete    = "incomplete"
)

// Usage counts tokens as the provider reported them.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Cached     int `json:"cached_tokens,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.Prompt + o.Prompt, u.Completion + o.Completion, u.Total + o.Total, u.Cached + o.Cached}
}

func (RunStarted) event()         {}
func (ModelCallStarted) event()   {}
func (Thought) event()            {}
func (ModelCallFailed) event()    {}
func (ModelSwitched) event()      {}
func (Nudged) event()             {}
func (MessageSteered) event()     {}
func (SynthesisRequested) event() {}
func (ToolCallRequested) event()  {}
func (ToolStarted) event()        {}
func (ToolCompleted) event()      {}
func (ToolOutcomeUnknown) event() {}
func (ApprovalRequired) event()   {}
func (ApprovalResolved) event()   {}
func (RunCompleted) event()       {}
func (RunFailed) event()          {}
func (RunStopped) event()         {}
