package tools

import (
	"strings"
	"testing"

	"refold/domain/tool"
)

// What was read of the web is evidence; what could not be read is none.
func TestWebFetch_References(t *testing.T) {
	got, err := tellFetched([]fetchResult{{URL: "https://a.org/", Title: "A", Status: "success", text: strings.Repeat("word ", 1000)},
		{URL: "https://b.org/", Status: "failed", ErrorCode: "http_5xx", ErrorMessage: "away"}})
	if err != nil {
		t.Fatal(err)
	}
	refs := tool.ReferencesOf(got.Data)
	if len(refs) != 1 || refs[0].ID != "https://a.org/" || refs[0].Match != tool.MatchWeb || !strings.HasPrefix(refs[0].Metadata["digest"], "sha256:") ||
		len([]rune(refs[0].Content)) > tool.MaxReferenceText {
		t.Errorf("%+v", refs)
	}
}
