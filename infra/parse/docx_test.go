package parse

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"
)

func zipOf(t *testing.T, parts map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, body := range parts {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	xmlns  = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"`
	styles = `<w:styles` + xmlns + `><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style><w:style w:type="paragraph" w:styleId="H2"><w:name w:val="Heading 2"/></w:style><w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style></w:styles>`
	lists  = `<w:numbering` + xmlns + `><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="decimal"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>`
)

func docxOf(t *testing.T, body string) []byte {
	t.Helper()
	return zipOf(t, map[string]string{
		"[Content_Types].xml": "<Types/>",
		"word/document.xml":   `<?xml version="1.0"?><w:document` + xmlns + `><w:body>` + body + `</w:body></w:document>`,
		"word/styles.xml":     styles, "word/numbering.xml": lists,
		"word/footnotes.xml":           `<w:footnotes` + xmlns + `><w:footnote w:id="1"><w:p><w:r><w:t>Said in 2024.</w:t></w:r></w:p></w:footnote></w:footnotes>`,
		"word/_rels/document.xml.rels": `<Relationships><Relationship Id="r1" TargetMode="External" Target="https://example.com/a b"/><Relationship Id="r2" TargetMode="External" Target="javascript:x"/></Relationships>`,
		"docProps/core.xml":            `<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>员工手册</dc:title></cp:coreProperties>`,
	})
}

func para(style, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

func item(level, text string) string {
	return `<w:p><w:pPr><w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

func cell(props, text string) string {
	return `<w:tc><w:tcPr>` + props + `</w:tcPr><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:tc>`
}

func TestDOCX(t *testing.T) {
	out := parsed(t, "a.docx", docxOf(t, para("H1", "第一章")+
		`<w:p><w:r><w:t xml:space="preserve">Hello </w:t></w:r><w:r><w:t>world</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r></w:p>`+
		para("H2", "Lists")+item("0", "one")+item("1", "first")+item("1", "second")+item("0", "two")+
		`<w:tbl><w:tr>`+cell("", "地区")+cell(`<w:gridSpan w:val="2"/>`, "收入|x")+`</w:tr><w:tr>`+cell(`<w:vMerge w:val="restart"/>`, "北")+cell("", "1")+cell("", "2")+`</w:tr><w:tr>`+cell(`<w:vMerge/>`, "")+cell("", "3")+cell("", "4")+`</w:tr></w:tbl>`+
		`<w:p><w:hyperlink r:id="r1"><w:r><w:t>link</w:t></w:r></w:hyperlink> <w:hyperlink r:id="r2"><w:r><w:t>, text</w:t></w:r></w:hyperlink></w:p>`+
		`<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:fldChar/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:ins><w:r><w:t>kept</w:t></w:r></w:ins></w:p>`+
		para("", "# no heading")+
		`<w:p><w:r><mc:AlternateContent><mc:Choice><a:p><a:r><a:t>in a shape</a:t></a:r></a:p></mc:Choice><mc:Fallback><w:t>in a shape</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>`))
	equal(t, out.Title, "员工手册")
	equal(t, out.Text, `# 第一章

Hello world[^1]

## Lists

- one
  1. first
  2. second
- two

| 地区 | 收入\|x | 收入\|x |
| --- | --- | --- |
| 北 | 1 | 2 |
| 北 | 3 | 4 |

[link](https://example.com/a%20b), text

kept

\# no heading

in a shape

[^1]: Said in 2024.`)
}

func TestDOCX_Hostile(t *testing.T) {
	refused(t, "a.docx", docxOf(t, ""), "empty")
	refused(t, "a.docx", docxOf(t, "<w:p><w:r>"), "damaged")
	refused(t, "a.docx", docxOf(t, strings.Repeat("<w:sdt>", 400)+strings.Repeat("</w:sdt>", 400)), "damaged")
	refused(t, "a.docx", docxOf(t, "<w:p><w:r><w:t>&lol;</w:t></w:r></w:p>"), "damaged")
	refused(t, "a.docx", zipOf(t, map[string]string{"word/document.xml": `<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document` + xmlns + `><w:body><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:body></w:document>`}), "damaged")
	// Merged cells in tables in tables multiply what is in them.
	nested := `<w:p><w:r><w:t>` + strings.Repeat("x", 10_000) + `</w:t></w:r></w:p>`
	for range 60 {
		nested = `<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="63"/></w:tcPr>` + nested + `</w:tc></w:tr></w:tbl>`
	}
	refused(t, "a.docx", docxOf(t, para("", "Text.")+nested), "too_large")
	wide := `<w:tbl><w:tr>` + cell("", "a") + `</w:tr>` + strings.Repeat(`<w:tr>`+cell(`<w:gridSpan w:val="63"/>`, "")+`</w:tr>`, 5000) + `</w:tbl>`
	if out := parsed(t, "a.docx", docxOf(t, para("", "Text.")+wide)); len(out.Notes) != 1 {
		t.Errorf("%q", out.Notes)
	}
}

func TestZipBombs(t *testing.T) {
	zeros := strings.Repeat("\x00", 64<<20)
	for _, name := range []string{"a.docx", "a.xlsx"} {
		part := map[string]string{"a.docx": "word/document.xml", "a.xlsx": "xl/workbook.xml"}[name]
		refused(t, name, zipOf(t, map[string]string{part: zeros}), "too_large")
		many := map[string]string{part: "<x/>"}
		for i := range 10_001 {
			many[strings.Repeat("y", i%7)+string(rune('a'+i%26))+strings.Repeat("z", i/26)] = ""
		}
		refused(t, name, zipOf(t, many), "too_large")
	}
	// One that lies about its size.
	honest := zipOf(t, map[string]string{"word/document.xml": zeros})
	lie := bytes.ReplaceAll(honest, []byte{0, 0, 0, 4}, []byte{0, 1, 0, 0})
	if bytes.Equal(lie, honest) {
		t.Fatal("the size is not where it is looked for")
	}
	refused(t, "a.docx", lie, "damaged")
}
