package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func parse(t *testing.T, raw string) Arguments {
	t.Helper()
	got, err := ParseArguments(raw)
	if err != nil {
		t.Fatalf("ParseArguments(%q): %v", raw, err)
	}
	return got
}

type parseCase struct {
	raw, want string
	repairs   []string
}

func check(t *testing.T, cases []parseCase) {
	t.Helper()
	for _, c := range cases {
		got := parse(t, c.raw)
		if string(got.JSON) != c.want || !reflect.DeepEqual(got.Repairs, c.repairs) {
			t.Errorf("%q:\n got %s %q\nwant %s %q", c.raw, got.JSON, got.Repairs, c.want, c.repairs)
		}
	}
}

func refuse(t *testing.T, raw string, offset int, truncated bool) {
	t.Helper()
	got, err := ParseArguments(raw)
	var bad *ArgumentError
	if !errors.As(err, &bad) {
		t.Errorf("%q: parsed as %s, want an error", raw, got.JSON)
		return
	}
	if bad.Offset != offset || bad.Truncated != truncated || bad.Message == "" || got.JSON != nil {
		t.Errorf("%q: offset %d truncated %v (%v), want %d %v", raw, bad.Offset, bad.Truncated, err, offset, truncated)
	}
}

func TestP21_BlankAndNullAreNoArguments(t *testing.T) {
	check(t, []parseCase{{"", "{}", nil}, {"   ", "{}", nil}, {"null", "{}", nil}, {" null\n", "{}", nil},
		{"\uFEFF", "{}", nil}, {"{}", "{}", nil}, {`""`, "{}", []string{RepairNested}}})
}

func TestStrictIsUnchanged(t *testing.T) {
	check(t, []parseCase{
		{` { "b" : [ 1 , 2.50 ] , "a" : "<&> \u00e9 \/ \ud83d" } `, `{"b":[1,2.50],"a":"<&> \u00e9 \/ \ud83d"}`, nil},
		{`{"a":1,"a":2,"b":{"x":1,"x":{"y":0}}}`, `{"a":2,"b":{"x":{"y":0}}}`, nil},
		{`"{\"a\": 1}"`, `{"a":1}`, []string{RepairNested}},
		{"{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}", nil},
		{`{"a":"it's True, None"}`, `{"a":"it's True, None"}`, nil},
	})
}

func TestP22_FencesAndProse(t *testing.T) {
	want := `{"city":"南京","days":2}`
	check(t, []parseCase{
		{"```json\n{\"city\": \"南京\", \"days\": 2}\n```", want, []string{RepairBefore, RepairAfter}},
		{"{\"city\": \"南京\", \"days\": 2}\nThat should do.", want, []string{RepairAfter}},
		{"Here it is:\n```\n{\"city\": \"南京\", \"days\": 2}", want, []string{RepairBefore}},
		{"Here:\n```json\n{\"city\": \"南京\", \"days\": 2}\n```\nDone.", want, []string{RepairBefore, RepairAfter}},
		{"Arguments: {\"city\": \"南京\", \"days\": 2}", want, []string{RepairBefore}},
	})
	refuse(t, "```json\n```", 0, false)
	refuse(t, "nothing here", 0, false)
	refuse(t, "None", 0, false)
	refuse(t, "[1]", 0, false)
	refuse(t, `"text"`, 0, false)
	refuse(t, ` 5`, 1, false)
	refuse(t, `[{"a":1}`, 0, false)
	refuse(t, `"a": {"b":1}`, 0, false)
	refuse(t, `a: {"b":1}`, 0, false)
	refuse(t, `{"a":1},"b":2}`, 7, false)
	refuse(t, `{"a":1} {"a":2}`, 8, false)
	refuse(t, `{"a":1}}`, 7, false)
}

func TestP23_MissingClosersInStackOrder(t *testing.T) {
	check(t, []parseCase{
		{`{"a":[1,2`, `{"a":[1,2]}`, []string{RepairClosers}},
		{`{"t":"if (x) { y[0] }","b":[1`, `{"t":"if (x) { y[0] }","b":[1]}`, []string{RepairClosers}},
		{`{"t":"a,}","n":1,}`, `{"t":"a,}","n":1}`, []string{RepairComma}},
		{`{"t":[1,2,],}`, `{"t":[1,2]}`, []string{RepairComma}},
		{"```json\n{\"a\":[{\"b\":1\n```", `{"a":[{"b":1}]}`, []string{RepairBefore, RepairClosers, RepairAfter}},
	})
	refuse(t, `{"a":[1,2}`, 9, false)
	refuse(t, `{"a":{"b":1]`, 11, false)
	refuse(t, `{"a":[1,,2]}`, 8, false)
	refuse(t, `{,}`, 1, false)
	refuse(t, `{"a":1 "b":2}`, 7, false)
}

func TestP18_CutTextIsTruncated(t *testing.T) {
	for raw, at := range map[string]int{`{"label":"a","text":"long`: 20, `{"a":"x\`: 5, `{"a":`: 5, `{"a"`: 4, `{`: 1, `{"a":1,`: 7,
		`{"a":[`: 6, `{"a":tru`: 8, `{"a":-`: 6, `{"a":1.`: 7, `{"a":1e+`: 8, `{"a":{"b`: 6, `{a`: 2, `{"a":"it is </tool_call>`: 5} {
		refuse(t, raw, at, true)
	}
}

func TestP24_EscapesAndControlCharacters(t *testing.T) {
	check(t, []parseCase{
		{`{"p":"C:\dir\new","re":"\d+"}`, `{"p":"C:\\dir\new","re":"\\d+"}`, []string{RepairEscape}},
		{"{\"content\":\"line1\nline2\tx\x01\"}", `{"content":"line1\nline2\tx\u0001"}`, []string{RepairControl}},
		{`{"u":"\u12 \u00e9"}`, `{"u":"\\u12 \u00e9"}`, []string{RepairEscape}},
		{`{"u":"it\'s"}`, `{"u":"it\\'s"}`, []string{RepairEscape}},
	})
}

func TestP25_PythonBareKeysAndTokens(t *testing.T) {
	check(t, []parseCase{
		{`{'q': 'it\'s', 'n': None, 'deep': True}`, `{"q":"it's","n":null,"deep":true}`, []string{RepairQuotes, RepairLiteral}},
		{`{'q': "it's", 'r': 'say "hi"', 'f': [False]}`, `{"q":"it's","r":"say \"hi\"","f":[false]}`, []string{RepairQuotes, RepairLiteral}},
		{`{q: "x", n: 3,}`, `{"q":"x","n":3}`, []string{RepairBareKey, RepairComma}},
		{`{"q":"x"}<|call|>`, `{"q":"x"}`, []string{RepairAfter}},
		{`{"q":"x"}<|endoftext|>`, `{"q":"x"}`, []string{RepairAfter}},
		{`{"q":"True or None, it's","b":True}`, `{"q":"True or None, it's","b":true}`, []string{RepairLiteral}},
	})
	refuse(t, `{'q': 'it's'}`, 10, false)
	refuse(t, `{'q': 'the dogs', and cats', 'n': 1}`, 18, false)
	refuse(t, `{"a":"foo", bar: "baz"}`, 12, false)
	refuse(t, `{"a":"he said "hi" to me"}`, 15, false)
	refuse(t, `{"a":x}`, 5, false)
	refuse(t, `{"a":NaN}`, 5, false)
	refuse(t, `{"a":01}`, 5, false)
	refuse(t, `{"a":+1}`, 5, false)
	refuse(t, `{"a":1_000}`, 5, false)
	refuse(t, `{'a':'\x41'}`, 6, false)
	refuse(t, `{"a":1 // note
}`, 7, false)
	refuse(t, `{“a”:1}`, 1, false)
}

func TestP26_DigitsSurvive(t *testing.T) {
	raw := `{"id":9007199254740993,"neg":-9223372036854775808,"f":0.1,"big":1E400}`
	if got := parse(t, raw); string(got.JSON) != raw {
		t.Errorf("parse: %s", got.JSON)
	}
	if got := parse(t, raw[:len(raw)-1]+",}"); string(got.JSON) != raw {
		t.Errorf("repair: %s", got.JSON)
	}
	got, err := Canonical(json.RawMessage(raw))
	if want := `{"big":1E400,"f":0.1,"id":9007199254740993,"neg":-9223372036854775808}`; err != nil || string(got) != want {
		t.Errorf("canonical: %s %v", got, err)
	}
	cast, err := Cast(json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"neg":{"type":["integer","null"]}}}`), json.RawMessage(raw))
	if want := strings.Replace(raw, "9007199254740993", `"9007199254740993"`, 1); err != nil || string(cast) != want {
		t.Errorf("cast: %s %v", cast, err)
	}
}

func TestCanonicalAndDigest(t *testing.T) {
	a, err := Canonical(json.RawMessage(` {"b":"\u00e9<","a":{"y":1,"x":[ ]}} `))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Canonical(json.RawMessage(`{"a":{"x":[],"y":1},"b":"é\u003c"}`))
	if want := `{"a":{"x":[],"y":1},"b":"é<"}`; string(a) != want || string(b) != want {
		t.Errorf("%s\n%s", a, b)
	}
	if Digest("t", a) != Digest("t", b) || Digest("t", a) == Digest("u", a) || len(Digest("t", a)) != 64 {
		t.Error("digests")
	}
	if _, err := Canonical(json.RawMessage(`{"a":`)); err == nil {
		t.Error("want an error")
	}
}

// prefix tells whether got could be what is left of want after a cut.
func prefix(got, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range g {
			if o, has := w[k]; !has || !prefix(v, o) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) > len(w) {
			return false
		}
		for i := range g {
			if !prefix(g[i], w[i]) {
				return false
			}
		}
		return true
	case json.Number:
		g, ok := got.(json.Number)
		return ok && strings.HasPrefix(string(w), string(g))
	}
	return reflect.DeepEqual(got, want)
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func cutEverywhere(t *testing.T, whole []byte) {
	want, err := decode(whole)
	if err != nil {
		return
	}
	if _, ok := want.(map[string]any); !ok {
		return
	}
	for i := range whole {
		got, err := ParseArguments(string(whole[:i]))
		if err != nil {
			if got.JSON != nil {
				t.Fatalf("%q: both a value and an error", whole[:i])
			}
			continue
		}
		v, err := decode(got.JSON)
		if err != nil || !prefix(v, want) {
			t.Fatalf("%q became %s (%v)", whole[:i], got.JSON, err)
		}
	}
}

func TestP23_CutAtEveryByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	word := func() string {
		parts := []string{"a", "{", "}", `"`, `\`, "中", "😀", ",", "]", "[", ":", "'", "\n", "True", "```", "<|x|>", " "}
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		return b.String()
	}
	value = func(depth int) any {
		switch k := r.IntN(7); {
		case k == 0 && depth < 4:
			m := map[string]any{}
			for range r.IntN(4) {
				m[word()] = value(depth + 1)
			}
			return m
		case k == 1 && depth < 4:
			l := []any{}
			for range r.IntN(4) {
				l = append(l, value(depth+1))
			}
			return l
		case k == 2:
			return r.IntN(100000) - 50000
		case k == 3:
			return r.Float64() * 1e-9
		case k == 4:
			return []any{true, false, nil}[r.IntN(3)]
		}
		return word()
	}
	for range 300 {
		m := map[string]any{}
		for range 1 + r.IntN(4) {
			m[word()] = value(0)
		}
		whole, _ := json.Marshal(m)
		cutEverywhere(t, whole)
		if got := parse(t, string(whole)); string(got.JSON) != string(whole) || got.Repairs != nil {
			t.Fatalf("strict input changed: %s -> %s", whole, got.JSON)
		}
	}
}

func FuzzRepair(f *testing.F) {
	for _, s := range []string{`{"a":[1,2`, `{'q': 'it\'s', 'n': None}`, `{q: "x", n: 3,}`, "```json\n{\"a\":1}\n```", `{"p":"C:\dir\new"}`,
		`{"q":"x"}<|call|>`, `{"a":{"b":[1.5e3,"x\u00e9"]},"c":null}`, `"{\"a\":1}"`, `{"a":1,"a":{"b":1,"b":2}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := ParseArguments(raw)
		var bad *ArgumentError
		switch {
		case err == nil:
			v, derr := decode(got.JSON)
			if _, ok := v.(map[string]any); !ok || derr != nil || !json.Valid(got.JSON) {
				t.Fatalf("%q became %s", raw, got.JSON)
			}
			again, err := ParseArguments(string(got.JSON))
			if err != nil || string(again.JSON) != string(got.JSON) || again.Repairs != nil {
				t.Fatalf("%q: %s parsed again is %s %v %v", raw, got.JSON, again.JSON, again.Repairs, err)
			}
			if _, err := Canonical(got.JSON); err != nil {
				t.Fatal(err)
			}
		case !errors.As(err, &bad):
			t.Fatalf("untyped error %v", err)
		case bad.Offset < 0 || bad.Offset > len(raw) || json.Valid([]byte(raw)) && strings.HasPrefix(strings.TrimSpace(raw), "{"):
			t.Fatalf("%q: %+v", raw, bad)
		}
		if want, err := decode([]byte(raw)); err == nil && json.Valid([]byte(raw)) {
			if m, ok := want.(map[string]any); ok {
				if v, _ := decode(got.JSON); !reflect.DeepEqual(v, any(m)) || len(got.Repairs) != 0 {
					t.Fatalf("strict %q changed to %s", raw, got.JSON)
				}
				// Of a repeated key a cut leaves an earlier value: no prefix.
				var compact bytes.Buffer
				if json.Compact(&compact, []byte(raw)) == nil && len(compact.Bytes()) == len(got.JSON) && len(raw) < 400 {
					cutEverywhere(t, []byte(raw))
				}
			}
		}
	})
}
