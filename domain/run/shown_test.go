package run_test

import (
	"testing"

	"refold/domain/run"
	"refold/tests/scenario"
)

var pieces = []run.Segment{
	{Kind: run.SegThought, Text: "hm, 长"}, {Kind: run.SegThought, Text: "…"}, {Kind: run.SegClose, MS: 340},
	{Kind: run.SegAnswer, Text: "Let me "}, {Kind: run.SegAnswer, Text: "look."}, {Kind: run.SegCall, ID: "c1", Name: "thinking"},
	{Kind: run.SegTool, Text: "first "}, {Kind: run.SegTool, Text: "this"}, {Kind: run.SegCall, ID: "c2", Name: "now"}, {Kind: run.SegAnswer, Text: "And."},
}

func TestShown_ThereAndBack(t *testing.T) {
	text, reasoning, shown := run.Compact(pieces)
	if text != "Let me look.And." || reasoning != "hm, 长…" || shown.Aside != "first this" {
		t.Fatalf("%q %q %+v", text, reasoning, shown)
	}
	back, err := shown.Expand(text, reasoning)
	if err != nil {
		t.Fatal(err)
	}
	scenario.Equal(t, "pieces", pieces, back)
	if text, reasoning, shown := run.Compact(nil); text+reasoning+shown.Cuts != "" {
		t.Fatal("something of nothing")
	}
}

func TestShown_Damaged(t *testing.T) {
	for _, cuts := range []string{"a9", "t3", "a", "ax", "a-1", "p", "p1", "c", "z1", "a1  a1", " ", "k1", "a99999999999999999999"} {
		shown := run.Shown{Cuts: cuts}
		if got, err := shown.Expand("ab", "c"); err == nil {
			t.Fatalf("%q: %v", cuts, got)
		}
		shown.Kept("ab") // never panics
	}
}

func TestShown_Kept(t *testing.T) {
	for _, c := range []struct{ cuts, text, want string }{
		{"", "whole", "whole"}, {"a5", "whole", "whole"}, {"a2 p a3", "whole", "ole"}, {"a2 p", "wh", ""}, {"a1 p a1 p a3", "whole", "ole"}, {"t9 c1 a5", "whole", "whole"},
	} {
		if got := (run.Shown{Cuts: c.cuts}).Kept(c.text); got != c.want {
			t.Fatalf("%q of %q: %q, want %q", c.cuts, c.text, got, c.want)
		}
	}
}
