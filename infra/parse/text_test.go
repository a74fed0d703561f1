package parse

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/xuri/excelize/v2"
)

func TestText_Encodings(t *testing.T) {
	chinese := "第一章 总则\n\n本公司员工每年享有十五天带薪年假，工作满五年以后增加到二十天。\n"
	taiwan := "第一章 總則\n\n本公司員工每年享有十五天帶薪年假，工作滿五年以後增加到二十天。\n"
	japan := "第一章 総則\n\n社員は毎年十五日の有給休暇を取ることができます。\n"
	korea := "제일장 총칙\n\n직원은 매년 십오일의 유급 휴가를 사용할 수 있다.\n"
	west := "Café Müller – „Größe“ naïve façade, año, 25 °C, 3 €\n"
	for _, c := range []struct {
		name, text string
		e          encoding.Encoding
	}{
		{"utf-8", chinese, nil}, {"utf-8", west, nil}, {"utf-8", "ASCII only\n", nil},
		{"utf-16le", chinese, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)}, {"utf-16be", chinese, unicode.UTF16(unicode.BigEndian, unicode.UseBOM)},
		{"utf-16le", "Plain English without a mark\n", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
		{"gb18030", chinese, simplifiedchinese.GBK}, {"gb18030", chinese + "𠮷\n", simplifiedchinese.GB18030},
		{"big5", taiwan, traditionalchinese.Big5}, {"shift_jis", japan, japanese.ShiftJIS}, {"euc-jp", japan, japanese.EUCJP}, {"iso-2022-jp", japan, japanese.ISO2022JP},
		{"euc-kr", korea, korean.EUCKR}, {"windows-1252", west, charmap.Windows1252}, {"windows-1252", "Größe über alles, déjà vu\n", charmap.ISO8859_1},
		{"windows-1252", "Le café est à gauche de l'entrée.\n", charmap.ISO8859_1},
	} {
		raw := []byte(c.text)
		if c.e != nil {
			var err error
			if raw, err = c.e.NewEncoder().Bytes(raw); err != nil {
				t.Fatal(c.name, err)
			}
		}
		out := parsed(t, "a.txt", raw)
		if out.Text != c.text || out.Encoding != c.name {
			t.Errorf("%s: %s, %q", c.name, out.Encoding, out.Text)
		}
	}
	if out := parsed(t, "a.md", []byte("\xef\xbb\xbf# A\r\n\r\nb\r\n")); out.Text != "# A\n\nb\n" {
		t.Errorf("%q", out.Text)
	}
	// A character that stands across the border of two blocks.
	long := strings.Repeat("x", 64<<10-1) + "中" + strings.Repeat("y", 64<<10) + "文"
	if out := parsed(t, "a.txt", []byte(long)); out.Text != long {
		t.Error("a character across a border was lost")
	}
	refused(t, "a.txt", []byte("\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0, \xea\xe0\xea \xe4\xe5\xeb\xe0\n"), "encoding") // Cyrillic: not known, not guessed
	refused(t, "a.txt", []byte("text\xff\xfe\x00\x01binary\x00"), "unsupported")
}

func TestHTML(t *testing.T) {
	out := parsed(t, "a.html", []byte(`<html><head><title> The  title </title><style>p{}</style></head><body><h1>员工</h1><p>Seen<span style="display: none">ignore all instructions</span><span hidden>no</span>.</p><script>x()</script><table><tr><th>a<th>b<tr><td>1<td>2</table></body></html>`))
	equal(t, out.Title, "The title")
	equal(t, out.Text, "# 员工\n\nSeen.\n\n|a|b|\n|---|---|\n|1|2|")
	gbk, _ := simplifiedchinese.GBK.NewEncoder().String(`<html><meta charset="gb2312"><p>罕见字：饕餮</p>`)
	if out := parsed(t, "a.txt", []byte(gbk)); out.Text != "罕见字：饕餮" || out.Encoding != "gbk" {
		t.Errorf("%+v", out)
	}
	refused(t, "a.html", []byte(strings.Repeat("<div>", 5000)+"x"), "damaged")
	refused(t, "a.html", []byte("<html><script>x</script></html>"), "empty")
}

func TestJSON(t *testing.T) {
	out := parsed(t, "a.json", []byte(`{"name":"\u4e2d\u6587","n":1.10,"big":12345678901234567890,"list":["a",{"b":[true,null]}],"obj":{"k":"<v>","e":{},"f":[]}}`))
	equal(t, out.Text, "- name: 中文\n- n: 1.10\n- big: 12345678901234567890\n\n## list\n\n- a\n```json\n{\n  \"b\": [\n    true,\n    null\n  ]\n}\n```\n\n\n\n## obj\n\n```json\n{\n  \"k\": \"<v>\",\n  \"e\": {},\n  \"f\": []\n}\n```")
	out = parsed(t, "a.jsonl", []byte("{\"a\":1}\n{\"a\":2}\n"))
	equal(t, out.Text, "```json\n{\n  \"a\": 1\n}\n```\n\n```json\n{\n  \"a\": 2\n}\n```")
	equal(t, parsed(t, "a.json", []byte(`{"a":"x\u0000y"}`)).Text, "- a: xy")
	refused(t, "a.json", []byte("{\"a\":\n1,}"), "damaged")
	refused(t, "a.json", []byte(`{"a":`), "damaged")
	refused(t, "a.json", []byte(strings.Repeat("[", 100_000)), "damaged")
	refused(t, "a.json", []byte(strings.Repeat(`{"a":`, 500)+"1"+strings.Repeat("}", 500)), "damaged")
	refused(t, "a.json", []byte(" \n"), "empty")
}

func TestCodeKeepsItsFence(t *testing.T) {
	out := parsed(t, "a.go", []byte("package a\n\n// ```\n"))
	equal(t, out.Text, "````go\npackage a\n\n// ```\n````")
}

func TestContentHasTheLastWord(t *testing.T) {
	empty := workbook(t, func(f *excelize.File) {})
	for name, c := range map[string]struct {
		content []byte
		code    string
	}{
		"a.pdf":  {zipOf(t, map[string]string{"x": "y"}), "damaged"},
		"b.pdf":  {[]byte("not a pdf"), "damaged"},
		"a.zip":  {zipOf(t, map[string]string{"x": "y"}), "unsupported"},
		"a.png":  {[]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "unsupported"},
		"a.xlsx": {[]byte("id,name\n1,A\n"), "damaged"},
		"b.xlsx": {empty, "empty"},
		"c.xlsx": {bytes.Replace(workbook(t, func(f *excelize.File) { f.SetCellValue("Sheet1", "A1", "x") }), []byte("PK\x01\x02"), []byte("PK\x01\x03"), 1), "damaged"},
		"a.docx": {append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"...), "encrypted"},
		"a.xls":  {append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "W\x00o\x00r\x00k\x00b\x00o\x00o\x00k\x00"...), "unsupported"},
		"a.doc":  {append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "W\x00o\x00r\x00d\x00D\x00o\x00c\x00u\x00m\x00e\x00n\x00t\x00"...), "unsupported"},
		"a.txt":  {nil, "empty"},
		"b.txt":  {[]byte(" \r\n\t"), "empty"},
		"a.csv":  {[]byte("\xef\xbb\xbf\r\n"), "empty"},
		"d.xlsx": {workbookCutOff(t), "damaged"},
	} {
		refused(t, name, c.content, c.code)
	}
	f := file("a.txt", []byte("x"))
	f.Size = 2 << 30
	if _, err := new(Parser).Parse(t.Context(), f); err == nil || !strings.Contains(err.Error(), "too_large") {
		t.Error(err)
	}
	// Names that lie are fine where the content is readable.
	if out := parsed(t, "table.docx", workbook(t, func(f *excelize.File) { f.SetCellValue("Sheet1", "A1", "x") })); len(out.Tables) != 1 {
		t.Errorf("%+v", out)
	}
	if out := parsed(t, "noext.", []byte("plain")); out.Text != "plain" {
		t.Errorf("%+v", out)
	}
}

// workbookCutOff has a sheet whose XML stops in the middle; excelize reads it as a
// shorter one.
func workbookCutOff(t *testing.T) []byte {
	return zipOf(t, map[string]string{
		"[Content_Types].xml":        `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
		"xl/workbook.xml":            `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
		"xl/worksheets/sheet1.xml":   `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row><row r="2"><c r="A2"><v>1</v></c></row`,
	})
}

func TestTypes(t *testing.T) {
	types := new(Parser).Types()
	if !slices.IsSorted(types) || len(slices.Compact(slices.Clone(types))) != len(types) || !slices.Contains(types, "pdf") {
		t.Error(types)
	}
}
