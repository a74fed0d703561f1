package openai

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"refold/handlers"
)

func (f fixture) check(t *testing.T, how string, body io.Reader) {
	t.Helper()
	reply, _, err := replay(t, body)
	if codeOf(err) != f.code || !reflect.DeepEqual(reply, f.want) {
		t.Errorf("%s: got %+v, error %v\nwant %+v, error %q", how, reply, err, f.want, f.code)
	}
}

// run plays the fixtures whose name begins with a case's number.
func run(t *testing.T, number string) {
	t.Helper()
	n := 0
	for _, f := range fixtures {
		if strings.HasPrefix(f.name, number) {
			n++
			t.Run(f.name, func(t *testing.T) { f.check(t, "at once", strings.NewReader(f.body)) })
		}
	}
	if n == 0 {
		t.Fatal("no fixture")
	}
}

func TestP01_NoSpaceAfterColon(t *testing.T)    { run(t, "P01") }
func TestP03_UsageWithoutChoices(t *testing.T)  { run(t, "P03") }
func TestP06_CharacterSplit(t *testing.T)       { run(t, "P06") }
func TestP07_NoTerminalMarker(t *testing.T)     { run(t, "P07") }
func TestP09_IndexMissing(t *testing.T)         { run(t, "P09") }
func TestP10_IndexZeroForAll(t *testing.T)      { run(t, "P10") }
func TestP11_ArgumentsNoString(t *testing.T)    { run(t, "P11") }
func TestP12_FinishWithCalls(t *testing.T)      { run(t, "P12") }
func TestP13_TwoFinishChunks(t *testing.T)      { run(t, "P13") }
func TestP14_EmptyID(t *testing.T)              { run(t, "P14") }
func TestP16_NameWithWhiteSpace(t *testing.T)   { run(t, "P16") }
func TestP17_CallCutByLimit(t *testing.T)       { run(t, "P17") }
func TestP18_CutCallSaidToBeWhole(t *testing.T) { run(t, "P18") }
func TestP19_GhostEntry(t *testing.T)           { run(t, "P19") }
func TestP21_NoArguments(t *testing.T)          { run(t, "P21") }
func TestP27_ThinkTagsOverChunks(t *testing.T)  { run(t, "P27") }
func TestP28_OrphanCloserInStream(t *testing.T) { run(t, "P28") }
func TestP29_HeldSuffixInStream(t *testing.T)   { run(t, "P29") }
func TestShapes(t *testing.T) {
	for _, f := range fixtures {
		if !strings.HasPrefix(f.name, "P") {
			t.Run(f.name, func(t *testing.T) { f.check(t, "at once", strings.NewReader(f.body)) })
		}
	}
}

func TestP02_NonDataLines(t *testing.T) {
	run(t, "P02")
	lines := strings.SplitAfter(delta(`{"content":"o"}`)+delta(`{"content":"k"}`)+stopDone(), "\n")
	for _, line := range []string{": ping\n", ":\n", "\n", "event: message\n", "id: 7\n", "retry: 3000\n", "x-own: y\n"} {
		for i := range len(lines) {
			body := strings.Join(lines[:i], "") + line + strings.Join(lines[i:], "")
			fixture{want: text("ok")}.check(t, line, strings.NewReader(body))
		}
	}
}

func TestP04_ErrorInStream(t *testing.T) {
	run(t, "P04")
	for _, f := range fixtures {
		if f.code == "" || !strings.HasPrefix(f.name, "P04") || strings.HasSuffix(f.name, "reason error") {
			continue
		}
		if _, _, err := replay(t, strings.NewReader(f.body)); !strings.Contains(err.Error(), "monthly budget used up") {
			t.Errorf("%s: the provider's words are lost: %v", f.name, err)
		}
	}
}

func TestP20_TextBeforeCall(t *testing.T) {
	run(t, "P20")
	for _, f := range fixtures {
		if f.name == "P20 all in one" {
			_, h, _ := replay(t, strings.NewReader(f.body))
			if want := []string{"reasoning", "content", "call now"}; !reflect.DeepEqual(h.order, want) {
				t.Errorf("emitted %v, want %v", h.order, want)
			}
		}
	}
}

// Wherever the network splits a body, its meaning is the same.
func TestSplitAnywhere(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			f.check(t, "byte by byte", iotest.OneByteReader(strings.NewReader(f.body)))
			f.check(t, "data with the error", iotest.DataErrReader(strings.NewReader(f.body)))
			for i := 1; i < len(f.body); i++ {
				f.check(t, "split", io.MultiReader(strings.NewReader(f.body[:i]), strings.NewReader(f.body[i:])))
			}
		})
	}
}

func TestCallsAreAnnouncedAsSoonAsTheirNameIsCertain(t *testing.T) {
	var got []handlers.ModelCallDelta
	body := delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"now","arguments":""}}]}`) +
		delta(`{"content":"x"}`) +
		delta(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"other"}}]}`) +
		delta(`{"tool_calls":[{"index":1,"function":{"name":"_tool"}}]}`) +
		delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}]}`) +
		delta(`{"tool_calls":[{"index":1,"function":{"arguments":":1}"}}]}`) + finishing("{}", "tool_calls") + done
	a := newAssembly(func(d handlers.ModelDelta) error {
		if d.Call != nil {
			got = append(got, *d.Call)
		} else {
			got = append(got, handlers.ModelCallDelta{Index: -1, Text: d.Content})
		}
		return nil
	}, []string{"now"})
	events := newEventReader(strings.NewReader(body))
	for ev, err := events.next(); err == nil && !ev.done; ev, err = events.next() {
		var c chunk
		if err := json.Unmarshal(ev.data, &c); err != nil {
			t.Fatal(err)
		}
		if err := a.add(c); err != nil {
			t.Fatal(err)
		}
	}
	want := []handlers.ModelCallDelta{
		{Index: 0, ID: "c1", Name: "now"}, {Index: -1, Text: "x"},
		{Index: 1, ID: "c2", Name: "other_tool", Text: `{"a"`}, {Index: 1, ID: "c2", Text: `:1}`},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("emitted %+v\nwant %+v", got, want)
	}
}

func TestLimits(t *testing.T) {
	endless := func(piece string) io.Reader {
		return io.MultiReader(strings.NewReader("data: "), &repeat{piece: piece})
	}
	big := strings.Repeat("x", 1<<20)
	for name, body := range map[string]io.Reader{
		"line":      endless(big),
		"JSON":      io.MultiReader(strings.NewReader(`{"a":"`), &repeat{piece: big}),
		"lines":     &repeat{piece: "data: " + strings.Repeat("x", 4000) + "\n"},
		"content":   &repeat{piece: delta(`{"content":"` + big + `"}`)},
		"reasoning": &repeat{piece: delta(`{"reasoning":"` + big + `"}`)},
		"arguments": &repeat{piece: delta(`{"tool_calls":[{"index":0,"function":{"name":"now","arguments":"` + big + `"}}]}`)},
		"metadata":  &repeat{piece: delta(`{"tool_calls":[{"index":0,"sig":"` + big + `","function":{"name":"now"}}]}`)},
		"calls":     &repeat{piece: delta(`{"tool_calls":[{"function":{"name":"now","arguments":"{\"a\":1}"}}]}`), alternate: delta(`{"tool_calls":[{"function":{"name":"now","arguments":"{\"a\":2}"}}]}`)},
	} {
		if _, _, err := replay(t, body); codeOf(err) != "bad_response" {
			t.Errorf("%s without end: error %v, want bad_response", name, err)
		}
	}
}

// repeat gives its pieces for ever.
type repeat struct {
	piece, alternate string
	rest             string
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = r.piece
		if r.alternate != "" {
			r.piece, r.alternate = r.alternate, r.piece
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func FuzzStreamDecoder(f *testing.F) {
	for _, x := range fixtures {
		f.Add([]byte(x.body), 7)
	}
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		whole, _, err := replay(t, strings.NewReader(string(body)))
		if code := codeOf(err); strings.HasPrefix(code, "untyped") {
			t.Fatalf("untyped error: %v", err)
		}
		if len(body) == 0 {
			return
		}
		if cut %= len(body); cut < 0 {
			cut = -cut
		}
		parts, _, errParts := replay(t, io.MultiReader(strings.NewReader(string(body[:cut])), strings.NewReader(string(body[cut:]))))
		if !reflect.DeepEqual(whole, parts) || codeOf(err) != codeOf(errParts) {
			t.Fatalf("split at %d: %+v %v, else %+v %v", cut, parts, errParts, whole, err)
		}
	})
}
