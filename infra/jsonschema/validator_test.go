package jsonschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

const sample = `{"type":"object","required":["q","steps"],"properties":{
 "q":{"type":"string","minLength":2,"maxLength":4},
 "n":{"type":"integer","minimum":1,"maximum":10},
 "kind":{"enum":["a","b"]},
 "mixed":{"anyOf":[{"type":"string"},{"type":"null"}]},
 "id":{"type":"integer"},
 "re":{"type":"string","pattern":"(?=x)y"},
 "steps":{"type":"array","minItems":1,"items":{"type":"object","required":["status"],"properties":{"status":{"enum":["x"]}}}},
 "ref":{"$ref":"#/$defs/short"}},
 "$defs":{"short":{"type":"string","maxLength":1}}}`

func TestValidate(t *testing.T) {
	for args, want := range map[string][]string{
		`{"q":"ab","steps":[{"status":"x"}],"extra":1}`: nil,
		`{}`:                       {"q: is required", "steps: is required"},
		`{"q":null,"steps":[]}`:    {"q: must be string, is null", "steps: must have at least 1 item, has 0"},
		`{"q":"中文字","steps":[{}]}`: {"steps.0.status: is required"},
		`{"q":"中文中文中","steps":[{"status":"y"}],"n":11,"kind":"c","mixed":1,"ref":"xy"}`: {
			`kind: must be one of "a", "b"`, "mixed: must be string or null", "n: must be at most 10",
			"q: must have at most 4 characters, has 5", "ref: must have at most 1 character, has 2", `steps.0.status: must be one of "x"`},
		`{"q":"ab","steps":[{"status":"x"}],"id":9007199254740993,"re":"anything"}`: nil,
		`{"q":"ab","steps":[{"status":"x"}],"id":1e999999999}`:                      {"id: the number is too large"},
		`{"q":"ab","steps":[{"status":"x"}],"id":1.5,"n":0}`:                        {"id: must be integer, is number", "n: must be at least 1"},
		`{`: {"the arguments are not valid JSON"},
	} {
		if got := New().Validate(json.RawMessage(sample), json.RawMessage(args)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %q\nwant %q", args, got, want)
		}
	}
}

func TestSchemaCannotReachOut(t *testing.T) {
	for _, ref := range []string{"file:///etc/passwd", "https://example.test/s.json", "other.json", "mem:///other.json"} {
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":%q}}}`, ref)
		got := New().Validate(json.RawMessage(schema), json.RawMessage(`{"a":1}`))
		if len(got) != 1 || !strings.Contains(got[0], "schema cannot be used") || !strings.Contains(got[0], "leaves the schema") {
			t.Errorf("%s: %q", ref, got)
		}
	}
	// An unknown dialect and a base of its own do no harm.
	odd := `{"$schema":"https://example.test/dialect","$id":"https://example.test/x","type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`
	if got := New().Validate(json.RawMessage(odd), json.RawMessage(`{"a":"x"}`)); !reflect.DeepEqual(got, []string{"a: must be integer, is string"}) {
		t.Errorf("%q", got)
	}
	draft7 := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"integer"}}}`
	if got := New().Validate(json.RawMessage(draft7), json.RawMessage(`{"a":1}`)); got != nil {
		t.Errorf("%q", got)
	}
}

func TestCacheIsBoundedAndConcurrent(t *testing.T) {
	v := New()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range maxCompiled + 50 {
				schema := fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"integer","minimum":%d}}}`, i)
				if got := v.Validate(json.RawMessage(schema), json.RawMessage(`{"a":-1}`)); len(got) != 1 {
					t.Errorf("%q", got)
				}
			}
		})
	}
	wg.Wait()
	if len(v.compiled) != maxCompiled || len(v.order) != maxCompiled {
		t.Errorf("kept %d, %d", len(v.compiled), len(v.order))
	}
	if got := v.Validate(json.RawMessage(`{"type":5}`), json.RawMessage(`{}`)); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
