package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/domain/tool"
)

func TestShrink(t *testing.T) {
	big := strings.Repeat("x", 5000)
	data, _ := json.Marshal(map[string]any{"display_type": "search_results", "count": 2, "results": big, "small": "s", "references": []string{strings.Repeat("r", 100)}})
	if got := tool.Shrink(data, len(data)); string(got) != string(data) {
		t.Errorf("what fits was changed: %s", got)
	}
	got := string(tool.Shrink(data, 1000))
	for _, want := range []string{`"count":2`, `"references":["r`, `"small":"s"`, `"omitted"`, `"display_type"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is gone: %s", want, got)
		}
	}
	if strings.Contains(got, big) || len(got) > 1000 {
		t.Errorf("%d bytes", len(got))
	}
	if got := tool.Shrink(json.RawMessage(`"`+big+`"`), 100); got != nil {
		t.Errorf("no object: %s", got)
	}
}
