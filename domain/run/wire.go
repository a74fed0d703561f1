package run

import (
	"strconv"
	"strings"

	"refold/domain/event"
)

// Category is the category of run streams; the stream's id is the run's.
const Category = "run"

// Codec pairs wire names and schema numbers with Go types and upcasters; no
// other place does. testdata holds every version ever written.
var Codec = event.NewCodec(
	event.Of[Event, RunStarted]("RunStarted", 1),
	event.Of[Event, ModelCallStarted]("ModelCallStarted", 1),
	event.Of[Event, Thought]("Thought", 1),
	event.Of[Event, ModelCallFailed]("ModelCallFailed", 1),
	event.Of[Event, ModelSwitched]("ModelSwitched", 1),
	event.Of[Event, Nudged]("Nudged", 1),
	event.Of[Event, MessageSteered]("MessageSteered", 1),
	event.Of[Event, SynthesisRequested]("SynthesisRequested", 1),
	event.Of[Event, MemoryRequested]("MemoryRequested", 1),
	event.Of[Event, MemoryConsolidated]("MemoryConsolidated", 1),
	event.Of[Event, ContextExceeded]("ContextExceeded", 1),
	event.Of[Event, ToolCallRequested]("ToolCallRequested", 1),
	event.Of[Event, ToolStarted]("ToolStarted", 1),
	event.Of[Event, ToolCompleted]("ToolCompleted", 1),
	event.Of[Event, ToolOutcomeUnknown]("ToolOutcomeUnknown", 1),
	event.Of[Event, ApprovalRequired]("ApprovalRequired", 1),
	event.Of[Event, ApprovalResolved]("ApprovalResolved", 1),
	event.Of[Event, RunCompleted]("RunCompleted", 1),
	event.Of[Event, RunFailed]("RunFailed", 1),
	event.Of[Event, RunStopped]("RunStopped", 1),
	event.Of[Event, ImagesDescribed]("ImagesDescribed", 1),
)

// Delta is an entry of a model call's transient stream: pieces of a reply, or
// the mark that closes it. After the mark no piece can be appended: the writer
// loses the race for the version. So what readers have seen and what the run's
// next fact says are the same.
type Delta struct {
	Segments []Segment `json:"s,omitempty"`
	Closed   bool      `json:"closed,omitempty"`
}

// DeltaCodec is the codec of transient streams (event.CategoryDelta).
var DeltaCodec = event.NewCodec(event.Of[Delta, Delta]("Delta", 1))

// DeltaID names the transient stream of a model call.
func DeltaID(runID string, call int) string { return runID + "." + strconv.Itoa(call) }

// DeltaRun is the run that a transient stream's id belongs to.
func DeltaRun(id string) string {
	run, _, _ := strings.Cut(id, ".")
	return run
}
