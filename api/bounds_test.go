package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// Numbers that are integers are taken as such, also in settings that are kept as
// they come.
func TestWholeNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":3.0,"b":[1e2,-5.50,0.0],"c":"1.0 \" 2.0"}`: `{"a":3,"b":[100,-5.50,0],"c":"1.0 \" 2.0"}`,
		`1e300`: `1e300`, `12`: `12`, `-0.0`: `0`, `"\\"`: `"\\"`, `{"1.0":1.5}`: `{"1.0":1.5}`,
	} {
		if got := string(wholeNumbers([]byte(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	var b struct {
		N int             `json:"n"`
		L []int64         `json:"l"`
		R json.RawMessage `json:"r"`
	}
	if err := parse([]byte(`{"n":2.0,"l":[1,4e1],"r":{"chunking_config":{"chunk_size":9.0}}}`), &b); err != nil || b.N != 2 || b.L[1] != 40 {
		t.Errorf("%+v %v", b, err)
	}
	if how, err := process(b.R); err != nil || string(how) != `{"chunking_config":{"chunk_size":9}}` {
		t.Errorf("%s %v", how, err)
	}
	for _, body := range []string{`{"n":2.5}`, `{"n":9223372036854775808}`, `{"l":["1"]}`, `{"n":1.0,"l":{}}`} {
		if err := parse([]byte(body), &b); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
}

func TestProcess(t *testing.T) {
	for _, raw := range []string{"", "null"} {
		if how, err := process(json.RawMessage(raw)); how != nil || err != nil {
			t.Errorf("%q: %s %v", raw, how, err)
		}
	}
	for _, raw := range []string{`[]`, `"x"`, `{"chunking_config":1}`, `{"chunking_config":{"chunk_size":-1}}`, `{"chunking_config":{"chunk_size":10,"chunk_overlap":10}}`} {
		if _, err := process(json.RawMessage(raw)); err == nil {
			t.Errorf("%s was taken", raw)
		}
	}
}

// What is tidied away counts: a text is measured as it was sent.
func TestBounds(t *testing.T) {
	if err := bounded(bound{"name", "字字", 2}); err != nil {
		t.Error(err)
	}
	if err := bounded(bound{"name", "a  ", 2}); err == nil || !strings.Contains(err.Error(), "name has at most 2 characters") {
		t.Error(err)
	}
	if boundedList("l", []string{"a", ""}, 2, 1) != nil || boundedList("l", []string{"", "", ""}, 2, 1) == nil || boundedList("l", []string{"ab"}, 2, 1) == nil {
		t.Error("lists")
	}
	if boundedNumbers("n", []int64{1, maxExact}, 2) != nil || boundedNumbers("n", []int64{0}, 2) == nil || boundedNumbers("n", []int64{maxExact + 1}, 2) == nil || boundedNumbers("n", []int64{1, 1, 1}, 2) == nil {
		t.Error("numbers")
	}
	if !blank("\u3000\x00\n\u0085") || blank("\u200b") || !blank("") {
		t.Error("blank")
	}
}
