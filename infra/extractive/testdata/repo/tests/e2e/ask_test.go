package e2e

import "testing"

func TestAsk(t *testing.T) {
	got := ask(t, "How does a run survive a crash?")
	if got == "" {
		t.Error("a run must survive a crash")
	}
	ask(t, "一次运行如何在崩溃后继续？")
}
