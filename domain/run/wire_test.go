package run_test

import (
	"errors"
	"reflect"
	"testing"

	"refold/domain/event"
	"refold/domain/run"
	"refold/tests/scenario"
)

func TestWire(t *testing.T) {
	scenario.Fixtures(t, run.Codec)
	scenario.Fixtures(t, run.DeltaCodec)
}

func TestWire_NamesOfTypesAreNamesOnTheWire(t *testing.T) {
	for _, e := range []run.Event{run.RunStarted{}, run.ModelCallStarted{}, run.Thought{}, run.ModelCallFailed{}, run.Nudged{}, run.SynthesisRequested{},
		run.MemoryRequested{}, run.MemoryConsolidated{}, run.ContextExceeded{},
		run.ToolCallRequested{}, run.ToolStarted{}, run.ToolCompleted{}, run.ToolOutcomeUnknown{}, run.ApprovalRequired{}, run.ApprovalResolved{},
		run.RunCompleted{}, run.RunFailed{}, run.RunStopped{}} {
		name, _, _, err := run.Codec.Encode(e)
		if want := reflect.TypeOf(e).Name(); err != nil || name != want {
			t.Fatalf("%s goes by %q, %v", want, name, err)
		}
	}
}

func TestWire_Refusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		schema int
		data   string
		want   error
	}{
		{"SuggestionsReady", 1, `{}`, event.ErrUnknownType},
		{"Thought", 2, `{}`, event.ErrNewerSchema},
		{"Thought", 0, `{}`, event.ErrCorrupt},
		{"Thought", 1, `{"call":"one"}`, event.ErrCorrupt},
		{"Thought", 1, `{"call":`, event.ErrCorrupt},
	} {
		if _, err := run.Codec.Decode(c.name, c.schema, []byte(c.data)); !errors.Is(err, c.want) {
			t.Fatalf("%s %d %s: %v, want %v", c.name, c.schema, c.data, err, c.want)
		}
	}
	// A field that this build does not know is no error: it was added later.
	if _, err := run.Codec.Decode("Nudged", 1, []byte(`{"reason":"empty","added_later":1}`)); err != nil {
		t.Fatal(err)
	}
}

func TestDeltaID(t *testing.T) {
	if id := run.DeltaID("r1", 12); id != "r1.12" || run.DeltaRun(id) != "r1" {
		t.Fatal(id)
	}
}
