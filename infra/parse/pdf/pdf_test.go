package pdf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"refold/handlers"
)

// page of a PDF that is made here: lines of text, or drawing commands.
type sheet struct {
	lines []string
	raw   string
}

// build writes a PDF. Texts are ASCII, in the standard font.
func build(title string, extra string, pages ...sheet) []byte {
	var b bytes.Buffer
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 5+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	object(fmt.Sprintf("<< /Title (%s) >>", title))
	for _, p := range pages {
		stream := p.raw
		if stream == "" {
			stream = "BT /F1 12 Tf 72 720 Td 14 TL\n"
			for _, l := range p.lines {
				stream += "(" + l + ") Tj T*\n"
			}
			stream += "ET"
		}
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", len(offsets)+2))
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, extra, xref)
	return b.Bytes()
}

func code(err error) string {
	var known *handlers.ParseError
	if errors.As(err, &known) {
		return known.Code
	}
	return fmt.Sprint(err)
}

func TestParse(t *testing.T) {
	r := &Reader{}
	defer r.Close()
	parse := func(content []byte) (handlers.Parsed, error) {
		return r.Parse(t.Context(), bytes.NewReader(content), int64(len(content)))
	}

	out, err := parse(build("A title", "", sheet{lines: []string{"The first line of a paragraph that goes on, as the line is long enough, in the", "next line. Here it ends.", "# no heading"}}, sheet{raw: "0 0 m"}, sheet{lines: []string{"Third page."}}))
	if err != nil {
		t.Fatal(err)
	}
	want := "The first line of a paragraph that goes on, as the line is long enough, in the next line. Here it ends.\n\n\\# no heading\n\nThird page."
	if out.Text != want || out.Pages != 3 || out.Title != "A title" || len(out.Notes) != 1 {
		t.Errorf("%+v\n%q", out, out.Text)
	}

	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"a scan":       {build("", "", sheet{raw: "0 0 100 100 re f"}), "no_text"},
		"a password":   {build("", "/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <"+strings.Repeat("41", 32)+"> /U <"+strings.Repeat("42", 32)+"> >> /ID [<01><01>]", sheet{lines: []string{"x"}}), "encrypted"},
		"garbage":      {[]byte("%PDF-1.7\n" + strings.Repeat("garbage ", 1000)), "damaged"},
		"cut off":      {build("", "", sheet{lines: []string{"x"}})[:60], "damaged"},
		"no pages":     {build("", ""), "damaged"},
		"empty header": {[]byte("%PDF-"), "damaged"},
	} {
		if out, err := parse(c.content); code(err) != c.want {
			t.Errorf("%s: %v, want %s (%q)", name, err, c.want, out.Text)
		}
	}
	// After all that the reader still reads.
	if out, err := parse(build("", "", sheet{lines: []string{"Still here."}})); err != nil || !strings.Contains(out.Text, "Still here.") {
		t.Errorf("%q, %v", out.Text, err)
	}
}

func TestParse_ManyPages(t *testing.T) {
	r := &Reader{}
	defer r.Close()
	pages := make([]sheet, 2*reopen+1)
	for i := range pages {
		pages[i].lines = []string{fmt.Sprintf("This is number %d.", i+1)}
	}
	content := build("", "", pages...)
	out, err := r.Parse(t.Context(), bytes.NewReader(content), int64(len(content)))
	if err != nil || out.Pages != len(pages) || strings.Count(out.Text, "This is number") != len(pages) || !strings.HasSuffix(out.Text, fmt.Sprintf("\n\nThis is number %d.", len(pages))) {
		t.Errorf("%d pages, %d bytes, %v", out.Pages, len(out.Text), err)
	}
}

// endless is a page with so much text that reading it takes long.
func endless() []byte {
	body := build("", "", sheet{lines: []string{"x"}})
	return bytes.Replace(body, []byte("(x) Tj T*"), []byte(strings.Repeat("(xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx) Tj T*\n", 200_000)), 1)
}

func TestParse_EndsInTime(t *testing.T) {
	r := &Reader{limit: time.Nanosecond}
	defer r.Close()
	content := endless()
	if _, err := r.Parse(t.Context(), bytes.NewReader(content), int64(len(content))); code(err) != "damaged" && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	r.limit = 0
	ctx, cancel := context.WithCancel(t.Context())
	started := &trigger{Reader: bytes.NewReader(content), do: cancel}
	if _, err := r.Parse(ctx, started, int64(len(content))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	good := build("", "", sheet{lines: []string{"Still here."}})
	if out, err := r.Parse(t.Context(), bytes.NewReader(good), int64(len(good))); err != nil || !strings.Contains(out.Text, "Still here.") {
		t.Errorf("%q, %v", out.Text, err)
	}
}

// trigger cancels once the file is being read.
type trigger struct {
	*bytes.Reader
	do func()
}

func (r *trigger) Read(p []byte) (int, error) {
	r.do()
	return r.Reader.Read(p)
}

func TestFlow(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"one two three four fi-\nve six": "one two three four five six",
		"这是一个很长的中文段落它在这里换\n行了。\n新的一段。":                                "这是一个很长的中文段落它在这里换行了。\n\n新的一段。",
		"Title\nA long line of text that goes on and on\nuntil here.": "Title\n\nA long line of text that goes on and on until here.",
		"soft\u00ad\nware is a word":                                  "soft-\n\nware is a word",
	} {
		if got := flow(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Chinese comes from the map that a font carries. Here it lies in the stream of a
// second page, which draws nothing.
func TestParse_Chinese(t *testing.T) {
	cmap := "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <0000> <FFFF> endcodespacerange 4 beginbfchar <0001> <5E74> <0002> <5047> <0003> <D83DDE00> <0004> <3002> endbfchar endcmap end end"
	content := build("", "", sheet{raw: "BT /F1 12 Tf 72 720 Td <0001000200030004> Tj ET"}, sheet{raw: cmap})
	content = bytes.Replace(content, []byte("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"),
		[]byte("<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 8 0 R /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"), 1)
	r := &Reader{}
	defer r.Close()
	out, err := r.Parse(t.Context(), bytes.NewReader(content), int64(len(content)))
	if err != nil || out.Text != "年假😀。" {
		t.Errorf("%q, %v", out.Text, err)
	}
}
