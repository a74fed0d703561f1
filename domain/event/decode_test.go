package event

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type everything struct {
	Text    string            `json:"text"`
	N       int               `json:"n,omitempty"`
	Big     int64             `json:"big"`
	Yes     bool              `json:"yes"`
	F       float64           `json:"f"`
	At      time.Time         `json:"at"`
	Gone    time.Time         `json:"gone,omitzero"`
	Took    time.Duration     `json:"took"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	List    []string          `json:"list,omitempty"`
	Inner   inner             `json:"inner"`
	Inners  []inner           `json:"inners,omitempty"`
	Pointer *inner            `json:"pointer,omitempty"`
	Map     map[string]string `json:"map,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	Small   int8              `json:"small"`
	Self    []everything      `json:"self,omitempty"`
	Hidden  string            `json:"-"`
	_       string
}

type inner struct {
	Kind word  `json:"kind"`
	List []int `json:"list"`
}

type word string

var samples = []string{
	`{}`, ``, ` {}`, `{} `, `{`, `{"text"`, `{"text":`, `{"text":"a"`, `{"text":"a",}`, `{"text":"a"}x`, `[]`, `null`, `"x"`,
	`{"text":"plain","n":1,"big":-9007199254740993,"yes":true,"f":0.5,"at":"2026-03-04T05:06:07.123456789Z","took":1000}`,
	`{"at":"2026-03-04T05:06:07+02:00"}`, `{"at":"2026-03-04 05:06:07Z"}`, `{"at":null}`, `{"at":5}`, `{"at":"\u0032026-03-04T05:06:07Z"}`,
	`{"text":"line\nquote\" back\\ slash\/ \b\f\r\t nul\u0000 e\u00e9 \ud83d\ude00 end"}`, `{"text":"\ud83d"}`, `{"text":"\q"}`, `{"text":"\u12"}`, `{"text":"\`,
	"{\"text\":\"raw\x01control\"}", "{\"text\":\"a\\n\x01\"}", "{\"text\":\"broken \xff text\"}", "{\"text\":\"\\nbroken \xff text\"}", `{"text":"你好 é 😀"}`,
	`{"n":01}`, `{"n":-0}`, `{"n":1.0}`, `{"n":1e2}`, `{"n":9223372036854775807}`, `{"n":92233720368547758070}`, `{"n":-}`, `{"n":}`, `{"n":"1"}`, `{"n":null}`, `{"n":1 }`, `{"n": 1}`,
	`{"small":127}`, `{"small":128}`, `{"yes":TRUE}`, `{"yes":truex}`, `{"yes":null}`,
	`{"raw":{"a":[1,2,{"b":"}"}]}}`, `{"raw":null}`, `{"raw": 1 }`, `{"raw":{"a":1]}`, `{"raw":[1,2}`, `{"raw":01}`, `{"raw":"a\"b"}`, `{"raw":12"x"}`, `{"raw":[ 1 ]}`, "{\"raw\":\"\xff\"}",
	`{"list":[]}`, `{"list":["a","b","c","d","e","f"]}`, `{"list":["a",]}`, `{"list":["a"`, `{"list":null}`, `{"list":[null]}`, `{"list":[1]}`, `{"list":["a" ,"b"]}`,
	`{"inner":{"kind":"k","list":[1,2,3,4,5]},"inners":[{"kind":"a"},{},{"list":[]}]}`, `{"inner":null}`, `{"inner":[]}`, `{"inner":{"kind":"k"},"inner":{"list":[1]}}`,
	`{"pointer":{"kind":"k"}}`, `{"pointer":null}`, `{"map":{"a":"b"}}`, `{"bytes":"YWI="}`, `{"bytes":"%"}`, `{"self":[{"text":"in","self":[{"n":2}]}]}`,
	`{"unknown":1,"text":"a"}`, `{"Text":"fold"}`, `{"te\u0078t":"escaped name"}`, `{"text":"a","text":"b"}`, `{"hidden":"x","Hidden":"y"}`,
	`{"yes":true,"text":"out of order"}`, `{"f":1e400}`, `{"f":-1.5e-3}`,
	`{"text":"` + strings.Repeat("long ", 400) + `","n":7}`,
}

func sameAsJSON(t *testing.T, read readFunc, data []byte) (fast bool) {
	t.Helper()
	var want, got everything
	err := json.Unmarshal(data, &want)
	if !decodeInto(read, data, reflect.ValueOf(&got).Elem()) {
		return false
	}
	if err != nil {
		t.Fatalf("%q: read as %+v, encoding/json says %v", data, got, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\n%+v\n%+v", data, got, want)
	}
	return true
}

// What the decoder reads it reads as encoding/json does; the rest it leaves.
func TestDecode_AsEncodingJSON(t *testing.T) {
	read := readerOf(reflect.TypeFor[everything]())
	for _, s := range samples {
		sameAsJSON(t, read, []byte(s))
		for i := range s { // cut off, and damaged
			if i < 300 {
				sameAsJSON(t, read, []byte(s[:i]))
				sameAsJSON(t, read, []byte(s[:i]+"\""+s[i+1:]))
				sameAsJSON(t, read, []byte(s[:i]+","+s[i:]))
			}
		}
	}
	own, err := marshal(everything{Text: "a\n\"b\" <c> 你 \u2028", N: -5, Big: 1 << 59, Yes: true, F: 0.25, At: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		Raw: json.RawMessage(`{"a":[1]}`), List: []string{"x"}, Inners: []inner{{Kind: "k", List: []int{1}}}})
	if err != nil || !sameAsJSON(t, read, own) {
		t.Fatalf("our own encoding is left to encoding/json: %s %v", own, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	read := readerOf(reflect.TypeFor[everything]())
	f.Fuzz(func(t *testing.T, data []byte) { sameAsJSON(t, read, data) })
}
