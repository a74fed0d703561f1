package tool

import (
	"encoding/json"
	"strings"
	"testing"
)

const castSchema = `{"type":"object","required":["must"],"properties":{
 "list":{"type":"array"},"obj":{"type":"object"},"flag":{"type":"boolean"},"n":{"type":"integer"},"f":{"type":"number"},
 "s":{"type":"string"},"either":{"type":["integer","array"]},"null":{"anyOf":[{"type":"integer"},{"type":"null"}]},
 "must":{"type":"string"},"free":{},"any":{"anyOf":[{"type":"integer"},{}]}}}`

func TestCast(t *testing.T) {
	for _, c := range [][2]string{
		{`{"list":"[1, 2]"}`, `{"list":[1,2]}`},
		{`{"list":"one"}`, `{"list":["one"]}`},
		{`{"list":5}`, `{"list":[5]}`},
		{`{"list":"[broken"}`, `{"list":["[broken"]}`},
		{`{"list":{"a":1}}`, `{"list":{"a":1}}`},
		{`{"obj":"{\"id\":9007199254740993}"}`, `{"obj":{"id":9007199254740993}}`},
		{`{"obj":"text"}`, `{"obj":"text"}`},
		{`{"flag":"Yes"}`, `{"flag":true}`},
		{`{"flag":0}`, `{"flag":false}`},
		{`{"flag":2}`, `{"flag":2}`},
		{`{"flag":"maybe"}`, `{"flag":"maybe"}`},
		{`{"n":" 9007199254740993 "}`, `{"n":9007199254740993}`},
		{`{"n":5.0}`, `{"n":5}`},
		{`{"n":"1e3"}`, `{"n":1000}`},
		{`{"n":5.5}`, `{"n":5.5}`},
		{`{"n":"0x10"}`, `{"n":"0x10"}`},
		{`{"f":"0.10"}`, `{"f":0.10}`},
		{`{"f":3}`, `{"f":3}`},
		{`{"s":9007199254740993}`, `{"s":"9007199254740993"}`},
		{`{"s":true}`, `{"s":"true"}`},
		{`{"s":[1]}`, `{"s":[1]}`},
		{`{"either":"7"}`, `{"either":7}`},
		{`{"null":null,"n":null,"must":null}`, `{"null":null,"must":null}`},
		{`{"free":"1","any":"1","extra":null}`, `{"free":"1","any":"1","extra":null}`},
		{`{"LIST":"x"}`, `{"list":["x"]}`},
	} {
		got, err := Cast(json.RawMessage(castSchema), json.RawMessage(c[0]))
		if err != nil || string(got) != c[1] {
			t.Errorf("%s: got %s %v, want %s", c[0], got, err, c[1])
		}
	}
	for _, bad := range []string{`{"n":1,"N":2}`, `{"N":1,"n":2}`, `{"N":1,"ｎ":1,"n":2}`, `[]`, `{`, ``} {
		if got, err := Cast(json.RawMessage(castSchema), json.RawMessage(bad)); err == nil {
			t.Errorf("%s: got %s, want an error", bad, got)
		}
	}
	if got, err := Cast(nil, json.RawMessage(`{"a": 1}`)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("no schema: %s %v", got, err)
	}
}

func TestP14_BlankCallIDs(t *testing.T) {
	a := NormalizeCallID("", "now", 1, 0)
	if len(a) != 17 || !strings.HasPrefix(a, "call_") || a != NormalizeCallID(" \n", "now", 1, 0) {
		t.Errorf("%q", a)
	}
	seen := map[string]bool{}
	for round := range 12 {
		for index := range 12 {
			seen[NormalizeCallID("", "now", round, index)] = true
		}
	}
	if len(seen) != 144 {
		t.Errorf("%d ids of 144", len(seen))
	}
	if got := NormalizeCallID(" fc.1:中 ", "now", 1, 0); got != "fc_1__" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 65)
	one, other := NormalizeCallID(long+"a", "", 1, 0), NormalizeCallID(long+"b", "", 1, 0)
	if len(one) != 64 || one == other || NormalizeCallID(long[:64], "", 1, 0) != long[:64] {
		t.Errorf("%q %q", one, other)
	}
}

func TestP15_ReusedCallIDsBecomeUnique(t *testing.T) {
	taken := map[string]bool{"sh_7": true, "sh_7_2": true}
	if got := UniqueCallID("sh_7", func(id string) bool { return taken[id] }); got != "sh_7_3" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 64)
	if got := UniqueCallID(long, func(id string) bool { return id == long }); len(got) != 64 || got == long {
		t.Errorf("%q", got)
	}
	if got := UniqueCallID("free", func(string) bool { return false }); got != "free" {
		t.Errorf("%q", got)
	}
}

func TestP16_Names(t *testing.T) {
	for raw, want := range map[string]string{"\n now \n": "now", "\u200bnow\x00": "now", "now": "now", " ": "", "a b": "a b"} {
		if got := NormalizeName(raw); got != want {
			t.Errorf("%q: %q", raw, got)
		}
	}
	known := []string{"grep_files", "list_files", "now", "read_file", "todo_write"}
	for name, want := range map[string]string{"grep_file": "grep_files read_file", "raed_file": "read_file", "NOW": "now", "files": "grep_files list_files", "zzzzzz": "", "": "", "read_file_now": "now read_file"} {
		if got := strings.Join(Nearest(name, known), " "); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
