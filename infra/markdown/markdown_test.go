package markdown

import (
	"strings"
	"testing"
)

func convert(t *testing.T, page string) string {
	t.Helper()
	doc, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := From(doc, "https://example.com/a/b")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestFrom(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"structure": {`<h1>员工手册</h1><p>Hello <b>all</b></p><ul><li>one<li>two</ul><pre><code class="language-go">x := 1
y</code></pre>`, "# 员工手册\n\nHello **all**\n\n- one\n- two\n\n```go\nx := 1\ny\n```"},
		"table":        {`<table><tr><th>a<th>b<tr><td>1<td>x|y</table>`, "|a|b|\n|---|---|\n|1|x\\|y|"},
		"spans":        {`<table><tr><th colspan=2>a<tr><td>1<td>2</table>`, "|a|a|\n|---|---|\n|1|2|"},
		"links":        {`<a href="/c">c</a> <a href="javascript:alert(1)">j</a> <img alt="pic" src="data:image/png;base64,AAAA">`, "[c](https://example.com/c) j"},
		"unread":       {`<p>a</p><script>evil()</script><style>p{}</style><!-- <p>c</p> --><noscript>n</noscript><button>b</button>`, "a"},
		"forged":       {`<p># not a heading</p><p>- no list</p>`, "\\# not a heading\n\n\\- no list"},
		"nothing":      {``, ""},
		"entities":     {`&lt;script&gt; &amp; caf&eacute;`, "&lt;script&gt; & café"},
		"broken":       {`<p>a<div>b</p></span>c`, "a\n\nb\n\nc"},
		"invalid utf8": {"<p>a\xffb</p>", "a\uFFFDb"},
	} {
		if got := convert(t, c.page); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// A page that is made to blow up ends with an error or bounded text.
func TestFrom_Hostile(t *testing.T) {
	if _, err := Parse(strings.Repeat("<div>", 600) + "x"); err == nil {
		t.Error("nesting without end was parsed")
	}
	if got := convert(t, `<table><tr><td colspan="1000000" rowspan="1000000">x</table>`); len(got) > 1000 {
		t.Errorf("a cell became %d bytes", len(got))
	}
	row := "<tr>" + strings.Repeat(`<td colspan="50" rowspan="50">x`, 20)
	if got := convert(t, "<table>"+strings.Repeat(row, 20)+"</table>"); len(got) > 4<<20 {
		t.Errorf("a table became %d bytes", len(got))
	}
	ragged := "<table><tr>" + strings.Repeat("<td>", 10000) + "y" + strings.Repeat("<tr>", 10000) + "<td>z</table>"
	if got := convert(t, ragged); len(got) > 1<<20 || !strings.Contains(got, "z") {
		t.Errorf("a ragged table became %d bytes", len(got))
	}
	if got := convert(t, strings.Repeat("<b><i>", 200)+"x"); len(got) > 10000 {
		t.Errorf("%d bytes", len(got))
	}
}
