package run

import (
	"fmt"
	"time"
)

// PurposeMemory is the purpose of a model call that sums up older messages. It
// is no round, its text is never shown.
const PurposeMemory = "memory"

// Reasons of MemoryRequested.
const (
	MemorySize     = "size"     // the next request would take more than half of the window
	MemoryOverflow = "overflow" // the model has refused a request as too long
)

// CodeOverflow is the code of a model error that says that a request was longer
// than the model's window.
const CodeOverflow = "context_overflow"

// CodeSummary is the code of an attempt at a summary that saves no space.
const CodeSummary = "summary_too_long"

// Place is a place in the messages of a run: 0 is the question, i+1 is what
// Steps[i] says, len(Steps)+1 is the answer.
type Place struct {
	Run  string `json:"run"`
	Step int    `json:"step"`
}

// MemoryRequested says that older messages will be replaced by a summary in the
// requests that follow: those from From to To, both included. Messages counts
// what the summary will stand for, also through an earlier summary. Tokens is
// the estimated size of the request that would have been sent.
type MemoryRequested struct {
	Reason   string    `json:"reason"`
	Tokens   int       `json:"tokens"`
	Window   int       `json:"window"` // tokens
	From     Place     `json:"from"`
	To       Place     `json:"to"`
	Messages int       `json:"messages"`
	At       time.Time `json:"at"`
}

// MemoryConsolidated is a summary that stands for the messages from From to To
// in every request that follows, also of later runs of the session. The
// messages themselves stay in the log. Archive says that no model wrote it: every
// attempt failed, and Text is the messages themselves, shortened.
type MemoryConsolidated struct {
	Call          int       `json:"call"` // the model call that wrote it, or the last that failed to
	Text          string    `json:"text"`
	From          Place     `json:"from"`
	To            Place     `json:"to"`
	Messages      int       `json:"messages"`
	Archive       bool      `json:"archive,omitempty"`
	Model         string    `json:"model,omitempty"`
	Usage         Usage     `json:"usage"`
	RequestDigest string    `json:"request_digest,omitempty"` // sha256 of the exact request
	DurationMS    int64     `json:"duration_ms"`
	At            time.Time `json:"at"`
}

// ContextExceeded says that the model refused a request as longer than its
// window. Window is what the run keeps to from now on. Limit and Requested are
// the tokens that the provider named, 0 if it named none.
type ContextExceeded struct {
	Call      int       `json:"call"`
	Size      int       `json:"size"` // as estimated
	Limit     int       `json:"limit,omitempty"`
	Requested int       `json:"requested,omitempty"`
	Window    int       `json:"window"`
	At        time.Time `json:"at"`
}

// MeasureContext reports how large the next request of a round would be, and
// which messages a summary could stand for. It leads to MemoryRequested if
// MemoryDue says so and the round is due.
type MeasureContext struct {
	Moment
	Tokens   int
	From, To Place
	Messages int
}

func (MemoryRequested) event()    {}
func (MemoryConsolidated) event() {}
func (ContextExceeded) event()    {}
func (MeasureContext) command()   {}

// memory is the part of the state that is about the model's window.
type memory struct {
	Wanted    *MemoryRequested     // the summary that is due
	Memories  []MemoryConsolidated // in order; the newest is the one in use
	Sized     Sizing               // of the newest request that a provider has counted
	window    int                  // learnt from a refusal, 0 if none
	Refusals  int                  // attempts at it that were refused as too long
	tries     int                  // failed attempts at it
	lost      int                  // lost attempts at it
	before    int                  // size before the newest summary
	tired     bool                 // the newest summary has not made requests smaller, as far as is known
	overflows int                  // refusals since the last reply
	calls     int                  // model calls that were no rounds
	refused   ModelCallStarted     // the claim of the newest failed attempt
}

// Sizing is one request as we counted it and as its provider did, in tokens.
type Sizing struct{ Counted, Prompt int }

// Window is the number of tokens that a request and its reply may take.
func (s State) Window() int {
	if s.memory.window > 0 {
		return s.memory.window
	}
	if s.Start == nil || s.Start.Limits.ContextTokens <= 0 {
		return DefaultContextTokens
	}
	return s.Start.Limits.ContextTokens
}

// Memory is the summary in use.
func (s State) Memory() (MemoryConsolidated, bool) {
	if n := len(s.Memories); n > 0 {
		return s.Memories[n-1], true
	}
	return MemoryConsolidated{}, false
}

// MemoryDue tells whether a request of that many tokens calls for a summary: it
// takes more than half of the window, and the summary before this one, if any,
// did make requests smaller.
func (s State) MemoryDue(tokens int) bool {
	return s.Wanted == nil && !s.tired && 2*tokens > s.Window()
}

// Next is the state as the next model call of a round will find it: its
// Transcript is what the call will send.
func (s State) Next() State { return s.settle().read() }

func decideMeasure(s State, c MeasureContext) []Event {
	due := false
	for _, e := range Due(s, c.Moment) {
		m, ok := e.(CallModel)
		due = due || ok && m.Purpose == PurposeRound
	}
	if !due || c.Messages < 2 || !s.MemoryDue(c.Tokens) {
		return nil
	}
	e := MemoryRequested{Reason: MemorySize, Tokens: c.Tokens, Window: s.Window(), From: c.From, To: c.To, Messages: c.Messages, At: c.Now}
	if s.overflows > 0 {
		e.Reason = MemoryOverflow
	}
	return []Event{e}
}

// decideMemory handles the reply to a request for a summary.
func decideMemory(s State, c RecordReply) []Event {
	if blank(c.Text) || s.Wanted == nil {
		return s.memoryFailed(ModelCallFailed{Code: "empty", Message: "the model returned no summary"}, c.Now, false, 0, c.Archive)
	}
	w := s.Wanted
	return []Event{MemoryConsolidated{Call: c.Call, Text: c.Text, From: w.From, To: w.To, Messages: w.Messages, Model: c.Model, Usage: c.Usage,
		RequestDigest: c.RequestDigest, DurationMS: c.Duration.Milliseconds(), At: c.Now}}
}

// memoryFailed says what follows an attempt at a summary without one: another,
// or the archive. Nothing is lost silently.
func (s State) memoryFailed(f ModelCallFailed, at time.Time, transient bool, asked time.Duration, archive string) []Event {
	f.Call, f.Round, f.Attempt, f.Purpose, f.At = s.Model.Call, s.Model.Round, s.Model.Attempt, PurposeMemory, at
	if s.Wanted == nil {
		return []Event{f}
	}
	late := !s.Start.Deadline.IsZero() && !at.Before(s.Start.Deadline)
	if s.tries+1 < MaxMemoryTries && !late {
		f.RetryAt = at
		if transient {
			f.RetryAt = at.Add(retryWait(s.tries+1, asked))
		}
		return []Event{f}
	}
	if next, ok := s.switched(f); ok && !late && f.Code != CodeOverflow && f.Code != CodeSummary && f.Code != "empty" {
		return []Event{f, next} // the model's fault: the next one may do it
	}
	if blank(archive) {
		return []Event{f} // given up: the messages stay as they are
	}
	w := s.Wanted
	return []Event{f, MemoryConsolidated{Call: f.Call, Text: archive, From: w.From, To: w.To, Messages: w.Messages, Archive: true, At: at}}
}

// decideOverflow says what follows when the model refused a request as too long:
// once it is made again within a smaller window, then the run has failed.
func decideOverflow(s State, f ModelCallFailed, c RecordFailure) []Event {
	if s.overflows > 0 {
		if next, ok := s.switched(f); ok {
			return []Event{f, next}
		}
		message := "the conversation does not fit into the model's window, also after older parts were summed up and left out; start a new session, or use a model with a larger window"
		if c.Message != "" {
			message += " (" + c.Message + ")"
		}
		return []Event{f, s.failed(CodeOverflow, message, EndModelFailed, f)}
	}
	size := s.Model.Size
	if size <= 0 {
		size = s.Window()
	}
	e := ContextExceeded{Call: f.Call, Size: size, Limit: max(0, c.Limit), Requested: max(0, c.Requested), Window: size * 7 / 10, At: c.Now}
	if e.Limit > 0 {
		e.Window = e.Limit
	}
	e.Window = max(1, min(e.Window, s.Window()))
	f.RetryAt = c.Now
	return []Event{f, e}
}

// switched moves on to the next fallback model, if there is one.
func (s State) switched(f ModelCallFailed) (ModelSwitched, bool) {
	if next := s.Switches; next < len(s.Start.Agent.Fallbacks) {
		return ModelSwitched{From: s.ModelName(), To: s.Start.Agent.Fallbacks[next], Reason: f.Message, At: f.At}, true
	}
	return ModelSwitched{}, false
}

// moved folds a change of the model: what was learnt about the other's window is
// not true of this one.
func (m memory) moved() memory {
	m.Sized, m.window, m.tired, m.overflows = Sizing{}, 0, false, 0
	return m
}

// claimed folds the claim of a model call.
func (m memory) claimed(e ModelCallStarted) memory {
	if e.Purpose == PurposeMemory {
		m.calls++
	} else if e.Size > 0 && e.Dropped == 0 && e.Size < m.before {
		m.tired = false // it did help
	}
	return m
}

func (m memory) requested(e MemoryRequested) memory {
	m.Wanted, m.before, m.tries, m.lost, m.Refusals = &e, e.Tokens, 0, 0, 0
	return m
}

// failed folds a failed or lost attempt at a summary; without another to come
// the summary is given up.
func (m memory) failed(e ModelCallFailed) memory {
	if e.Code == CodeLost {
		m.lost++
	} else {
		m.tries++
	}
	if e.Code == CodeOverflow {
		m.Refusals++
	}
	if e.RetryAt.IsZero() {
		m.Wanted, m.tired = nil, true
	}
	return m
}

func (m memory) consolidated(e MemoryConsolidated) memory {
	m.Memories = append(m.Memories[:len(m.Memories):len(m.Memories)], e)
	m.Wanted, m.tired = nil, true
	return m
}

// replied folds what a provider counted in a request.
func (m memory) replied(claim *ModelClaim, e Thought) memory {
	m.overflows = 0
	if claim != nil && claim.Call == e.Call && claim.Counted > 0 && e.Usage.Prompt > 0 {
		m.Sized = Sizing{claim.Counted, e.Usage.Prompt}
	}
	return m
}

// exceeded folds a refusal. What the provider has counted corrects the
// estimate; if it named only its limit, the request was longer than that.
func (m memory) exceeded(e ContextExceeded) memory {
	m.overflows++
	m.window, m.tired = e.Window, false
	told := e.Requested
	if told <= e.Limit {
		told = e.Limit + e.Limit/5
	}
	if c := m.refused; c.Call == e.Call && c.Counted > 0 && told > c.Counted {
		m.Sized = Sizing{c.Counted, told}
	}
	return m
}

// String names a place, for people.
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Run, p.Step) }
