package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"refold/domain/event"
	"refold/domain/run"
)

// A reply may have 2 MiB of text, and not a byte more.
func TestReplyText_TwoMebibytes(t *testing.T) {
	for size, taken := range map[int]bool{2<<20 - 4: true, 2<<20 - 3: false} {
		w := &shower{out: newDeltaWriter(event.Log[run.Delta]{Store: &stream{}, Codec: run.DeltaCodec, Category: event.CategoryDelta},
			"t", "r.1", func() string { return "e" }, func() event.Envelope { return event.Envelope{} })}
		w.out.err = errors.New("disk is full") // nothing is stored
		err := w.delta(context.Background(), ModelDelta{Content: strings.Repeat("a", size)})
		var failed *ModelError
		if errors.As(err, &failed) == taken || failed != nil && !strings.Contains(failed.Message, "use another model") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
