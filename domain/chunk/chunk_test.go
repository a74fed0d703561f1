package chunk_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"refold/domain/chunk"
	"refold/infra/tiktoken"
)

// check holds the promises of Split against a result. Sums of counts are
// exact for bytes, so no piece may be larger than size but for one character.
func check(t *testing.T, text string, o chunk.Options, pieces []chunk.Piece, count func(string) int, most int) {
	t.Helper()
	all := []rune(text)
	covered := make([]bool, len(all))
	before := -1
	for i, p := range pieces {
		if p.Start < 0 || p.End > len(all) || p.Start >= p.End {
			t.Fatalf("piece %d is from %d to %d of %d", i, p.Start, p.End, len(all))
		}
		if !utf8.ValidString(p.Content) || strings.TrimSpace(p.Content) == "" {
			t.Fatalf("piece %d: %q", i, p.Content)
		}
		if body := string(all[p.Start:p.End]); !strings.Contains(p.Content, body) {
			t.Fatalf("piece %d is %q, the text there %q", i, p.Content, body)
		}
		if p.Tokens != count(p.Content) {
			t.Fatalf("piece %d: %d tokens, counted %d", i, p.Tokens, count(p.Content))
		}
		if p.Kind == chunk.ParentText {
			if p.Parent != -1 || i+1 == len(pieces) || pieces[i+1].Parent != i {
				t.Fatalf("parent %d: %+v", i, p)
			}
			continue
		}
		if p.Tokens > most {
			t.Fatalf("piece %d has %d tokens of %d: %q; options %+v; before %q", i, p.Tokens, most, p.Content, o, string(all[max(0, p.Start-300):min(len(all), p.End+20)]))
		}
		if p.Start < before {
			t.Fatalf("piece %d begins before the one before it", i)
		}
		before = p.Start
		if p.Parent >= 0 {
			up := pieces[p.Parent]
			if p.Parent >= i || up.Kind != chunk.ParentText || p.Start < up.Start || p.End > up.End {
				t.Fatalf("piece %d of %d..%d has the parent %+v", i, p.Start, p.End, up)
			}
		}
		for k := p.Start; k < p.End; k++ {
			covered[k] = true
		}
	}
	for k, r := range all {
		if !covered[k] && !unicode.IsSpace(r) && r != '\ufeff' {
			t.Fatalf("rune %d (%q) is in no piece; before it %q", k, r, string(all[max(0, k-40):k]))
		}
	}
}

func bytes(s string) int { return len(s) }

var parts = []string{
	"# Title\n", "## Section two\n", "### 第三节\n", "Setext\n=====\n", "a", "word ", "Sentence one. ", "Is it? Yes! ", "中文", "今天天气很好。", "价格是12.5元，真的吗？", "\n", "\n\n", "\r\n", "\r\n\r\n",
	"- item one\n", "  - nested\n", "1. first\n", "| a | b |\n|---|---|\n", "| 1 | 2 |\n", "| 很长的单元格内容很长的单元格内容 | x |\n", "```go\n", "```\n", "~~~\n", "func main() {}\n", "\tindented\n", "> quote\n", "---\n",
	"👨‍👩‍👧‍👦", "🇨🇳🇩🇪", "e\u0301", "\ufeff", "한국어", " ", "    ", strings.Repeat("x", 300), strings.Repeat("长", 200), strings.Repeat("\n", 100), strings.Repeat(" ", 100), "e.g. this", "3.14", "&amp; ", "\x01",
}

func random(r *rand.Rand) (string, chunk.Options) {
	var b strings.Builder
	for range 1 + r.IntN(120) {
		part := parts[r.IntN(len(parts))]
		for range 1 + r.IntN(3)*r.IntN(4) {
			b.WriteString(part)
		}
	}
	o := chunk.Options{Size: 32 + r.IntN(200), Overlap: r.IntN(60), ParentChild: r.IntN(2) == 0, Strategy: []string{"", chunk.Structure, chunk.Recursive}[r.IntN(3)]}
	if r.IntN(4) == 0 {
		o.Separators = []string{"\n\n", "。", " "}
	}
	return b.String(), o
}

// With a counter that is exactly additive the limit holds exactly, but for the
// line break and the blank lines between blocks.
func TestSplit_LosesNothingAndKeepsTheSize(t *testing.T) {
	for seed := range uint64(600) {
		text, o := random(rand.New(rand.NewPCG(seed, 1)))
		pieces := chunk.Split(text, o, bytes)
		check(t, text, o, pieces, bytes, o.Size+64)
		if again := chunk.Split(text, o, bytes); !reflect.DeepEqual(pieces, again) {
			t.Fatal("not the same twice")
		}
	}
}

func TestSplit_WithTheRealTokenizer(t *testing.T) {
	c := &tiktoken.Counter{}
	<-c.Load()
	for seed := range uint64(100) {
		text, o := random(rand.New(rand.NewPCG(seed, 2)))
		check(t, text, o, chunk.Split(text, o, c.Count), c.Count, o.Size+o.Size/16+4)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("# A\n\ntext\n\n| a |\n|---|\n| b |\n\n```\ncode", 40, 10)
	f.Add("一二三。四五六", 32, 0)
	f.Fuzz(func(t *testing.T, text string, size, overlap int) {
		text = strings.ToValidUTF8(text, "?")
		o := chunk.Options{Size: 32 + min(max(size, 0), 1000), Overlap: overlap, ParentChild: size%2 == 0}
		check(t, text, o, chunk.Split(text, o, bytes), bytes, o.Size+64)
	})
}
