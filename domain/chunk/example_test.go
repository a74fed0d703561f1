package chunk_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"refold/domain/chunk"
	"refold/infra/tiktoken"
)

// show gives each piece a line: context, tokens, content.
func show(pieces []chunk.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%s %d %q %q\n", p.Kind, p.Parent, p.Context, p.Content)
	}
	return b.String()
}

func words(s string) int { return len(strings.Fields(s)) }

func TestSplit_ByHeadings(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	text := "# Guide\n\nIntro.\n\n## Install\n\n" + long + "\n\n## Run `it` **now** ##\n\n### Locally\n\n" + long + "\n\nSetext two\n----------\n\n" + long + "\n"
	got := show(chunk.Split(text, chunk.Options{Size: 32}, words))
	want := `text -1 "Guide" "# Guide\n\nIntro.\n\n## Install\n\n` + long + `"
text -1 "Guide > Run it now > Locally" "## Run ` + "`it`" + ` **now** ##\n\n### Locally\n\n` + long + `"
text -1 "Guide > Setext two" "Setext two\n----------\n\n` + long + `"
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSplit_SmallSectionsShareAPieceUnderWhatTheyHaveInCommon(t *testing.T) {
	got := show(chunk.Split("# A\n\n## B\n\none\n\n## C\n\ntwo\n", chunk.Options{Size: 100}, words))
	if want := "text -1 \"A\" \"# A\\n\\n## B\\n\\none\\n\\n## C\\n\\ntwo\"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestSplit_HeadingIsNeverTheLastOfAPiece(t *testing.T) {
	text := strings.Repeat("word ", 27) + "\n\n## Next\n\n" + strings.Repeat("more ", 20)
	for _, p := range chunk.Split(text, chunk.Options{Size: 32}, words) {
		if strings.HasSuffix(p.Content, "## Next") {
			t.Errorf("%q", p.Content)
		}
	}
}

func TestSplit_OverlapIsWholeSentencesOfTheSameSection(t *testing.T) {
	text := strings.Repeat("One two three four. ", 20)
	pieces := chunk.Split(text, chunk.Options{Size: 40, Overlap: 10}, words)
	if len(pieces) != 3 || pieces[1].Start != pieces[0].End+1-2*len("One two three four. ") || pieces[1].Tokens > 40 {
		t.Errorf("%s", show(pieces))
	}
	for _, p := range pieces {
		if !strings.HasPrefix(p.Content, "One") || !strings.HasSuffix(p.Content, "four.") {
			t.Errorf("%q", p.Content)
		}
	}
	two := chunk.Split("# A\n\n"+text+"\n\n# B\n\nIts own.", chunk.Options{Size: 40, Overlap: 10}, words)
	if last := two[len(two)-1]; last.Content != "# B\n\nIts own." || last.Context != "B" {
		t.Errorf("%+v", last)
	}
}

func TestSplit_TableHeaderIsRepeated(t *testing.T) {
	var b strings.Builder
	b.WriteString("Before.\n\n| id | name |\n|---|---|\n")
	for i := range 30 {
		fmt.Fprintf(&b, "| %d | row |\n", i)
	}
	b.WriteString("\nAfter.")
	pieces := chunk.Split(b.String(), chunk.Options{Size: 64}, words)
	rows := 0
	for i, p := range pieces {
		if !strings.Contains(p.Content, "| id | name |\n|---|---|\n| ") || p.Tokens > 64 {
			t.Errorf("%d tokens: %q", p.Tokens, p.Content)
		}
		if i > 0 && !strings.HasPrefix(p.Content, "| id |") {
			t.Errorf("%q", p.Content)
		}
		rows += strings.Count(p.Content, "| row |")
	}
	if rows != 30 || len(pieces) < 3 {
		t.Errorf("%d rows in %d pieces", rows, len(pieces))
	}
	small := "One.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n" + strings.Repeat("word ", 60)
	if got := chunk.Split(small, chunk.Options{Size: 64}, words); !strings.Contains(got[0].Content, "| a | b |\n|---|---|\n| 1 | 2 |") {
		t.Errorf("%s", show(got))
	}
}

func TestSplit_CodeKeepsItsFences(t *testing.T) {
	var b strings.Builder
	b.WriteString("```go\n")
	for i := range 60 {
		fmt.Fprintf(&b, "\tx := f( %d )\n", i)
	}
	b.WriteString("```\n\nAfter that.\n")
	pieces := chunk.Split(b.String(), chunk.Options{Size: 64}, words)
	if len(pieces) < 4 {
		t.Fatalf("%s", show(pieces))
	}
	for _, p := range pieces[:len(pieces)-1] {
		if !strings.HasPrefix(p.Content, "```go\n\tx :=") || strings.Count(p.Content, "```") != 2 || p.Tokens > 64 {
			t.Errorf("%d tokens: %q", p.Tokens, p.Content)
		}
	}
	whole := "```sh\n# not a heading\n\n- not a list\n```\n"
	if got := chunk.Split(whole, chunk.Options{}, words); len(got) != 1 || got[0].Context != "" {
		t.Errorf("%s", show(got))
	}
}

func TestSplit_ChineseEndsAtSentences(t *testing.T) {
	c := &tiktoken.Counter{}
	<-c.Load()
	text := strings.Repeat("事件日志只追加不修改。每个状态都由事件折叠而成！重放得到同样的结果吗？是的，“一定如此。”", 20)
	pieces := chunk.Split(text, chunk.Options{Size: 128, Overlap: 30}, c.Count)
	for _, p := range pieces {
		if p.Tokens > 128 || !strings.ContainsRune("。！？”", []rune(p.Content)[p.End-p.Start-1]) || strings.HasPrefix(p.Content, "”") {
			t.Errorf("%d tokens: %q", p.Tokens, p.Content)
		}
		if p.Tokens < 60 {
			t.Errorf("only %d tokens", p.Tokens)
		}
	}
}

func TestSplit_NeverInsideACharacter(t *testing.T) {
	for _, c := range []string{"👨‍👩‍👧‍👦", "🇨🇳", "e\u0301", "👍🏽", "각", "नि", "\r\n"} {
		for _, p := range chunk.Split(strings.Repeat(c, 400), chunk.Options{Size: 50}, func(s string) int { return len(s) }) {
			if strings.Trim(strings.ReplaceAll(p.Content, c, ""), "\r\n") != "" {
				t.Errorf("%q is cut: %q", c, p.Content)
			}
		}
	}
}

func TestSplit_Sentences(t *testing.T) {
	for text, want := range map[string][]string{
		"See Dr. Smith, e.g. at 3.14 p. m. today. Then go!":   {"See Dr. Smith, e.g. at 3.14 p. m. today.", "Then go!"},
		"He said \"Stop.\" Then he left... And? Yes":          {"He said \"Stop.\"", "Then he left...", "And?", "Yes"},
		"第一句。第二句！？”第三句；第四句……第五句":                              {"第一句。", "第二句！？”", "第三句；", "第四句……", "第五句"},
		"Use example.com/a.b?c=d and v1.2.3 always. Next one": {"Use example.com/a.b?c=d and v1.2.3 always.", "Next one"},
	} {
		var got []string
		// With room for one sentence only, each is a piece.
		for _, p := range chunk.Split(text, chunk.Options{Size: 32}, func(s string) int {
			if strings.TrimSpace(s) == text {
				return 100
			}
			return 20
		}) {
			got = append(got, p.Content)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestSplit_Parents(t *testing.T) {
	var b strings.Builder
	for s := range 6 {
		fmt.Fprintf(&b, "# Section %d\n\n%s\n\n", s, strings.Repeat("One two three four. ", 20))
	}
	pieces := chunk.Split(b.String(), chunk.Options{ParentChild: true, Child: 40, Overlap: 8}, words)
	parents, children := 0, 0
	for i, p := range pieces {
		if p.Kind == chunk.ParentText {
			parents++
			if p.Tokens > 160 || !strings.HasPrefix(p.Content, "# Section") {
				t.Errorf("%d tokens: %q", p.Tokens, p.Content)
			}
			continue
		}
		children++
		if p.Parent < 0 || !strings.Contains(pieces[p.Parent].Content, p.Content) || p.Tokens > 40 {
			t.Errorf("piece %d: %+v", i, p)
		}
	}
	if parents != 6 && parents != 3 || children != 18 {
		t.Errorf("%d parents, %d children", parents, children)
	}
	if one := chunk.Split("Short.", chunk.Options{ParentChild: true}, nil); len(one) != 1 || one[0].Parent != -1 || one[0].Kind != chunk.Text {
		t.Errorf("%+v", one)
	}
}

func TestSplit_OddTexts(t *testing.T) {
	for _, text := range []string{"", " \n\t\r\n", "\ufeff", "\ufeff\n"} {
		if got := chunk.Split(text, chunk.Options{}, nil); len(got) != 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
	got := chunk.Split("\ufeff# 标题\r\n\r\n正文。\r\n", chunk.Options{}, nil)
	if len(got) != 1 || got[0].Context != "标题" || got[0].Content != "# 标题\r\n\r\n正文。" || got[0].Start != 1 || got[0].End != 12 {
		t.Errorf("%+v", got)
	}
	front := chunk.Split("---\ntitle: x\n---\n\n# H\n\ntext", chunk.Options{}, nil)
	if len(front) != 1 || front[0].Context != "" {
		t.Errorf("%+v", front)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		text, strategy, tier string
		chain                []string
	}{
		{"# A\n\ntext", "", chunk.Heading, []string{"heading"}},
		{"# A\n\ntext", chunk.Structure, chunk.Structure, []string{"structure"}},
		{"- a\n- b\n", chunk.Auto, chunk.Structure, []string{"heading", "structure"}},
		{"text", "unknown", chunk.Recursive, []string{"heading", "structure", "recursive"}},
		{"# A", chunk.Recursive, chunk.Recursive, []string{"recursive"}},
	} {
		p := chunk.Choose(c.text, chunk.Options{Strategy: c.strategy})
		if p.Tier != c.tier || !reflect.DeepEqual(p.Chain, c.chain) || len(p.Rejected) != len(c.chain)-1 {
			t.Errorf("%q, %q: %+v", c.text, c.strategy, p)
		}
	}
	if s := chunk.Measure(chunk.Split("# A\n\none", chunk.Options{}, nil)); s != (chunk.Stats{Count: 1, Mean: 8, Min: 8, Max: 8}) {
		t.Errorf("%+v", s)
	}
}
