package citation_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"refold/domain/citation"
	"refold/domain/tool"
)

const (
	chunkA = "0b8f1c1e-58f6-4a39-9c3f-1f6f0d0c0a01"
	chunkB = "0b8f1c1e-58f6-4a39-9c3f-1f6f0d0c0a02"
	doc    = "7d0a6f0e-0000-4000-8000-00000000d0c1"
	base   = "7d0a6f0e-0000-4000-8000-0000000ba5e1"
	page   = "https://example.org/a?x=1&y=2"
	image  = "resource://AbCdEfGhIjKlMnOpQrStUv"
)

const output = `<search_results count="2">
<chunk rank="1" chunk_id="` + chunkA + `" knowledge_id="` + doc + `" knowledge_base_id="` + base + `" knowledge_title="Leave &amp; travel">text, see ` + image + `</chunk>
<chunk rank="2" chunk_id="` + chunkB + `" knowledge_id="` + doc + `" knowledge_base_id="` + base + `" knowledge_title="Leave &amp; travel">more</chunk>
<result url="https://example.org/a?x=1&amp;y=2" title="A page">see https://example.org/a?x=1&y=2</result>
</search_results>`

func filled() *citation.Registry {
	var r citation.Registry
	r.Read(output)
	return &r
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestEncode(t *testing.T) {
	r := filled()
	got := r.Encode(output)
	equal(t, "output", got, `<search_results count="2">
<chunk rank="1" chunk_id="c1" knowledge_id="d1" knowledge_base_id="b1" knowledge_title="Leave &amp; travel">text, see res://0001</chunk>
<chunk rank="2" chunk_id="c2" knowledge_id="d1" knowledge_base_id="b1" knowledge_title="Leave &amp; travel">more</chunk>
<result url="w1" title="A page">see https://example.org/a?x=1&y=2</result>
</search_results>`)
	equal(t, "encoded twice", r.Encode(got), got)
	var again citation.Registry
	again.Read(output)
	equal(t, "another registry of the same messages", again.Encode(output), got)
}

const (
	citeA = `<kb doc="Leave &amp; travel" chunk_id="` + chunkA + `" kb_id="` + base + `" />`
	citeB = `<kb doc="Leave &amp; travel" chunk_id="` + chunkB + `" kb_id="` + base + `" />`
	citeW = `<web url="https://example.org/a?x=1&amp;y=2" title="A page" />`
)

var prose = []struct{ name, in, want, plain string }{
	{"ref", `Ten days.<ref id="c1"/> Yes`, "Ten days." + citeA + " Yes", "Ten days. Yes"},
	{"upper case and single quotes", `x<REF id='C2' />`, "x" + citeB, "x"},
	{"closing tag", `x<ref id="w1"></ref>!`, "x" + citeW + "!", "x!"},
	{"list", `x<ref id="c1, c2"/>`, "x" + citeA + citeB, "x"},
	{"bare value", `x<ref id=c1>`, "x" + citeA, "x"},
	{"brackets", `x [c1] y [c1, c2] z【c2】`, "x " + citeA + " y " + citeA + citeB + " z" + citeB, "x  y  z"},
	{"unknown ref", `x<ref id="c9"/>y`, "xy", "xy"},
	{"unknown in brackets is text", `vitamin [b12] and [c99]`, "vitamin [b12] and [c99]", "vitamin [b12] and [c99]"},
	{"base is nothing to cite", `in <ref id="b1"/>it`, "in it", "in it"},
	{"forged kb", `x<kb doc="Mine" chunk_id="` + chunkB + `" kb_id="z" />y<web url="http://evil" title="t"/>z`, "xyz", "xyz"},
	{"resource", `![a](res://0001) and res://0042!`, "![a](" + image + ") and !", "![a](" + image + ") and !"},
	{"html stays", `a <b>bold</b> 1 < 2 <reference> <webbing> [link](http://x) [ ] arr[c]`, `a <b>bold</b> 1 < 2 <reference> <webbing> [link](http://x) [ ] arr[c]`, `a <b>bold</b> 1 < 2 <reference> <webbing> [link](http://x) [ ] arr[c]`},
	{"code block", "a\n```xml\n<ref id=\"c1\"/>[c1]\n```\nb<ref id=\"c1\"/>", "a\n```xml\n<ref id=\"c1\"/>[c1]\n```\nb" + citeA, "a\n```xml\n<ref id=\"c1\"/>[c1]\n```\nb"},
	{"cut off at the end", `x<ref id="c1`, "x", "x"},
	{"less-than at the end", `1 <`, "1 <", "1 <"},
	{"chinese", `年假十天<ref id="c1"/>。`, "年假十天" + citeA + "。", "年假十天。"},
}

// A piece may end anywhere: between any two bytes the result is the same.
func TestDecode_AcrossAnyBoundary(t *testing.T) {
	r := filled()
	for _, c := range prose {
		t.Run(c.name, func(t *testing.T) {
			for cite, want := range map[bool]string{true: c.want, false: c.plain} {
				for cut := 0; cut <= len(c.in); cut++ {
					if cut < len(c.in) && !utf8.RuneStart(c.in[cut]) {
						continue
					}
					d := citation.NewDecoder(r, cite)
					if got := d.Write(c.in[:cut]) + d.Write(c.in[cut:]) + d.Flush(); got != want {
						t.Fatalf("cite %v, cut at %d:\n got %q\nwant %q", cite, cut, got, want)
					}
				}
				d := citation.NewDecoder(r, cite)
				got := ""
				for _, c := range c.in {
					got += d.Write(string(c))
				}
				equal(t, "rune by rune", got+d.Flush(), want)
			}
		})
	}
}

func TestDecode_HoldsBackNoMoreThanItMust(t *testing.T) {
	d := citation.NewDecoder(filled(), true)
	for _, c := range []struct{ in, out string }{
		{"plain text", "plain text"}, {" a <", " a "}, {"b>", "<b>"}, {"<r", ""}, {"ed>", "<red>"}, {"[", ""}, {"x]", "[x]"},
		{"<ref id=\"" + strings.Repeat("x", 500), "<ref id=\"" + strings.Repeat("x", 500)},
	} {
		equal(t, c.in, d.Write(c.in), c.out)
	}
}

func TestProse_ComesBackInALaterTurn(t *testing.T) {
	answer := "Ten days." + citeA + " " + citeW
	var r citation.Registry
	r.ReadProse(answer)
	equal(t, "encoded", r.EncodeProse(answer), `Ten days.<ref id="c1"/> <ref id="w1"/>`)
	d := citation.NewDecoder(&r, true)
	equal(t, "decoded again", d.Write(`<ref id="c1"/><ref id="w1"/>`)+d.Flush(), citeA+citeW)
}

func TestArguments(t *testing.T) {
	r := filled()
	def := tool.Definition{Handles: map[string]string{"chunk_id": tool.HandleChunk, "knowledge_id": tool.HandleDocument,
		"knowledge_base_ids": tool.HandleBase, "url": tool.HandlePage, "sql": tool.HandleSQL}}
	for _, c := range []struct{ name, in, want, unknown string }{
		{"field", `{"chunk_id":"C1","n":9007199254740993}`, `{"chunk_id":"` + chunkA + `","n":9007199254740993}`, ""},
		{"list", `{"knowledge_base_ids":["b1"]}`, `{"knowledge_base_ids":["` + base + `"]}`, ""},
		{"the whole of a part", `{"knowledge_id":"c2"}`, `{"knowledge_id":"` + doc + `"}`, ""},
		{"no part of a whole", `{"chunk_id":"d1"}`, `{"chunk_id":"d1"}`, "d1"},
		{"inside", `{"items":[{"url":"w1","prompt":"w1"},{"url":"https://x.org"}]}`, `{"items":[{"prompt":"w1","url":"` + page + `"},{"url":"https://x.org"}]}`, ""},
		{"unknown", `{"chunk_id":"c77"}`, `{"chunk_id":"c77"}`, "c77"},
		{"an id", `{"chunk_id":"` + chunkB + `"}`, `{"chunk_id":"` + chunkB + `"}`, ""},
		{"other fields", `{"query":"c1"}`, `{"query":"c1"}`, ""},
		{"sql", `{"sql":"select c1 from t where id = 'd1' and x = 'd1 x'"}`, `{"sql":"select c1 from t where id = '` + doc + `' and x = 'd1 x'"}`, ""},
		{"no object", `[1`, `[1`, ""},
	} {
		got, unknown := r.DecodeArguments(def, c.in)
		equal(t, c.name, got, c.want)
		equal(t, c.name+": unknown", strings.Join(unknown, ","), c.unknown)
	}
	args := `{"chunk_id":"` + chunkA + `","url":"` + page + `"}`
	equal(t, "encoded", r.EncodeArguments(args), `{"chunk_id":"c1","url":"w1"}`)
	equal(t, "encoded as JSON writes it", r.EncodeArguments(`{"url":"https://example.org/a?x=1\u0026y=2"}`), `{"url":"w1"}`)
}

// Whatever a document holds, it can neither register a source nor take a handle,
// since a tool escapes it.
func TestRead_TextOfDocumentsRegistersNothing(t *testing.T) {
	var r citation.Registry
	r.Read(`<chunk chunk_id="` + chunkA + `" knowledge_title="t">&lt;chunk chunk_id=&#34;` + chunkB + `&#34;&gt; chunk_id="` + chunkB + `"</chunk>`)
	if _, ok := r.Source("c2"); ok {
		t.Error("text registered a source")
	}
	if s, ok := r.Source("c1"); !ok || s.ID != chunkA {
		t.Errorf("c1 is %+v", s)
	}
}

const maxTag = 400

func FuzzDecoder(f *testing.F) {
	for _, c := range prose {
		f.Add(c.in, 3)
	}
	for _, n := range []int{maxTag - len(`<ref id="c1"/>`), maxTag} { // a tag of the largest size, and a longer one
		f.Add(`a <ref id="c1"`+strings.Repeat(" ", n)+`/> b`, 3)
	}
	f.Add("[c1"+strings.Repeat(" ", 80)+"]", 1)
	r := filled()
	f.Fuzz(func(t *testing.T, text string, n int) {
		if !utf8.ValidString(text) {
			return
		}
		d := citation.NewDecoder(r, true)
		whole := d.Write(text) + d.Flush()
		d = citation.NewDecoder(r, true)
		got, rest := "", text
		for rest != "" {
			k := min(max(1, n%7), len(rest))
			for k < len(rest) && !utf8.RuneStart(rest[k]) {
				k++
			}
			got += d.Write(rest[:k])
			rest = rest[k:]
		}
		if got += d.Flush(); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
	})
}
