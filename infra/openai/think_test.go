package openai

import (
	"strings"
	"testing"
	"unicode/utf8"
)

var thinkCases = []struct{ name, in, thinking, answer string }{
	{"P27", "<think>plan B</think>It is seven.", "plan B", "It is seven."},
	{"P28", "\u00a0</think>\n\nThe total is 3.", "", "\u00a0\n\nThe total is 3."},
	{"P28 capitals", "</THINK>x", "", "x"},
	{"P28 only one", "</think></think>x", "", "</think>x"},
	{"P28 in the middle", "a </think> b", "", "a </think> b"},
	{"P28 fence", "```\n<think> tags\n```\n`<think>` and ``<think>`` too", "", "```\n<think> tags\n```\n`<think>` and ``<think>`` too"},
	{"P29", "if a < b then <thin> end x <th", "", "if a < b then <thin> end x <th"},
	{"every tag", "<THINK>a</Think><thinking>b</thinking><Reasoning>c</reasoning><thought>d</thought>e", "abcd", "e"},
	{"after white space", "x <think>a</think> y\n<think>b</think>z", "ab", "x  y\nz"},
	{"in a word", "x<think>a</think>", "", "x<think>a</think>"},
	{"other closer", "<think>a</thinking>b</think>c", "a</thinking>b", "c"},
	{"nested opener", "<think>a <think> b</think>c", "a <think> b", "c"},
	{"unterminated", "<think>a", "a", ""},
	{"unterminated with a piece", "<think>a</thi", "a</thi", ""},
	{"empty block", "<think></think>x", "", "x"},
	{"closer after a block", "<think>a</think></think>x", "a", "x"},
	{"backtick in thinking", "<think>a ` b</think>c", "a ` b", "c"},
	{"tilde fence", "~~~~\n<think>\n~~~\n<think>\n~~~~\n <think>a</think>", "a", "~~~~\n<think>\n~~~\n<think>\n~~~~\n "},
	{"fence on one line", "```x``` <think>a</think>", "a", "```x``` "},
	{"fence closer with words", "```\n``` no\n<think>\n```\n<think>a</think>", "a", "```\n``` no\n<think>\n```\n"},
	{"lone backtick ends with its paragraph", "a ` b <think>\n\n<think>c</think>", "c", "a ` b <think>\n\n"},
	{"indented fence", "- x\n  ```\n  <think>\n  ```\n<think>a</think>", "a", "- x\n  ```\n  <think>\n  ```\n"},
	{"CJK", "答案　<think>想一想</think>是七。", "想一想", "答案　是七。"},
	{"Kelvin sign", "<thin\u212a>x", "", "<thin\u212a>x"},
	{"broken text", "a\xff <think>\xe6</think>\xe6", "\xe6", "a\xff \xe6"},
	{"no attribute", "<think x>a", "", "<think x>a"},
}

func splitAll(parts ...string) (thinking, answer string) {
	var s ThinkSplitter
	var out []Piece
	for _, p := range parts {
		out = append(out, s.Write(p)...)
	}
	for _, p := range append(out, s.Flush()...) {
		if p.Thinking {
			thinking += p.Text
		} else {
			answer += p.Text
		}
	}
	return thinking, answer
}

func TestP27_ThinkSplitter(t *testing.T) {
	for _, c := range thinkCases {
		check := func(parts ...string) {
			t.Helper()
			if thinking, answer := splitAll(parts...); thinking != c.thinking || answer != c.answer {
				t.Errorf("%s %q: thinking %q, answer %q; want %q, %q", c.name, parts, thinking, answer, c.thinking, c.answer)
			}
		}
		check(c.in)
		for i := range len(c.in) + 1 {
			check(c.in[:i], c.in[i:])
			for j := i; j <= len(c.in); j++ {
				check(c.in[:i], c.in[i:j], c.in[j:])
			}
		}
	}
}

func TestP29_OnlyAPossibleTagIsHeld(t *testing.T) {
	for _, c := range []struct{ in, out, held string }{
		{"if a < b then <thi", "if a < b then ", "<thi"},
		{"x <", "x ", "<"},
		{"x<thi", "x<thi", ""},
		{"x </thi", "x </thi", ""},
		{" </thi", " ", "</thi"},
		{"`<thi", "`<thi", ""},
		{"<thix", "<thix", ""},
		{"<think>a</reas", "a</reas", ""},
		{"<think>a</thi", "a", "</thi"},
		{"晴\xe5\xa4", "晴", "\xe5\xa4"},
	} {
		var s ThinkSplitter
		var out string
		for _, p := range s.Write(c.in) {
			out += p.Text
		}
		if out != c.out || s.held != c.held {
			t.Errorf("%q: out %q, held %q; want %q, %q", c.in, out, s.held, c.out, c.held)
		}
	}
}

func FuzzThinkSplitter(f *testing.F) {
	for _, c := range thinkCases {
		f.Add(c.in, 3, 5)
	}
	f.Fuzz(func(t *testing.T, in string, i, j int) {
		thinking, answer := splitAll(in)
		i, j = inside(i, len(in)), inside(j, len(in))
		if th, an := splitAll(in[:min(i, j)], in[min(i, j):max(i, j)], in[max(i, j):]); th != thinking || an != answer {
			t.Fatalf("split at %d and %d: %q, %q; else %q, %q", i, j, th, an, thinking, answer)
		}
		if !strings.Contains(in, "<") && answer != in {
			t.Fatalf("text without a tag was changed: %q", answer)
		}
		// Text is only taken away, in order.
		rest := in
		var s ThinkSplitter
		for _, p := range append(s.Write(in), s.Flush()...) {
			for k := range len(p.Text) {
				n := strings.IndexByte(rest, p.Text[k])
				if n < 0 {
					t.Fatalf("%q is not in order in the input", p.Text)
				}
				rest = rest[n+1:]
			}
		}
		if utf8.ValidString(in) && (!utf8.ValidString(thinking) || !utf8.ValidString(answer)) {
			t.Fatalf("a character was cut: %q, %q", thinking, answer)
		}
	})
}

func inside(i, n int) int {
	if i %= n + 1; i < 0 {
		i = -i
	}
	return i
}
