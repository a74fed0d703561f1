package parse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	"refold/handlers"
)

func file(name string, content []byte) handlers.File {
	ext := name[strings.LastIndex(name, ".")+1:]
	return handlers.File{Name: name, Type: ext, Size: int64(len(content)), Content: bytes.NewReader(content)}
}

func parsed(t *testing.T, name string, content []byte) handlers.Parsed {
	t.Helper()
	out, err := new(Parser).Parse(t.Context(), file(name, content))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// refused fails unless the file is a ParseError of the code.
func refused(t *testing.T, name string, content []byte, code string) {
	t.Helper()
	out, err := new(Parser).Parse(t.Context(), file(name, content))
	var wrong *handlers.ParseError
	if !errors.As(err, &wrong) || wrong.Code != code || wrong.Message == "" {
		t.Errorf("%s: %v, want %s (%.200q)", name, err, code, out.Text)
	}
}

type sheet struct {
	table handlers.Table
	rows  [][]string
}

func rowsOf(t *testing.T, name string, content []byte) []sheet {
	t.Helper()
	var out []sheet
	err := new(Parser).Tables(t.Context(), file(name, content), func(tb handlers.Table) error {
		out = append(out, sheet{table: tb})
		return nil
	}, func(cells []string) error {
		s := &out[len(out)-1]
		s.rows = append(s.rows, append([]string(nil), cells...))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, s := range out {
		if s.table.Rows != len(s.rows) {
			t.Errorf("%s %q: %d rows said, %d read", name, s.table.Name, s.table.Rows, len(s.rows))
		}
	}
	return out
}

func names(tb handlers.Table) (out []string) {
	for _, c := range tb.Columns {
		out = append(out, c.Name)
	}
	return out
}

func kinds(tb handlers.Table) (out []string) {
	for _, c := range tb.Columns {
		out = append(out, c.Type)
	}
	return out
}

func sum(t *testing.T, s sheet, column string) (total float64) {
	t.Helper()
	for i, c := range s.table.Columns {
		if c.Name == column {
			for _, r := range s.rows {
				f, err := strconv.ParseFloat(r[i], 64)
				if err != nil {
					t.Fatal(err)
				}
				total += f
			}
			return total
		}
	}
	t.Fatalf("no column %q in %v", column, names(s.table))
	return 0
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
}

func TestP67_CSVWithBOM(t *testing.T) {
	content := []byte("\xEF\xBB\xBF\x69\x64\x2C\x6E\x61\x6D\x65\x0A\x31\x2C\x41\x0A")
	s := rowsOf(t, "a.csv", content)
	equal(t, names(s[0].table), []string{"id", "name"})
	equal(t, len(s[0].table.Columns[0].Name), 2)
	equal(t, s[0].rows, [][]string{{"1", "A"}})
	out := parsed(t, "a.csv", content)
	equal(t, out.Text, "| id | name |\n|---|---|\n| 1 | A |")
	equal(t, out.Encoding, "utf-8")
}

func TestP68_CSVInGBK(t *testing.T) {
	content := []byte("\xB6\xA9\xB5\xA5\xBA\xC5\x2C\xBD\xF0\xB6\xEE\x0D\x0A\xB1\xB1\xBE\xA9\x2C\x31\x32\x0D\x0A")
	s := rowsOf(t, "a.csv", content)
	equal(t, names(s[0].table), []string{"订单号", "金额"})
	equal(t, kinds(s[0].table), []string{"text", "integer"})
	equal(t, s[0].rows, [][]string{{"北京", "12"}})
	equal(t, sum(t, s[0], "金额"), 12.0)
	equal(t, parsed(t, "a.csv", content).Encoding, "gb18030")
}

func TestP68_SemicolonsDecimalCommasAndNotesBelow(t *testing.T) {
	s := rowsOf(t, "a.csv", []byte("date;rate\r\n2024-01-02;4,3547\r\n\r\nfull name;currency note\r\n"))
	equal(t, names(s[0].table), []string{"date", "rate"})
	equal(t, kinds(s[0].table), []string{"date", "number"})
	equal(t, s[0].rows, [][]string{{"2024-01-02", "4.3547"}})
	equal(t, s[0].table.Notes, []string{"below the table: full name | currency note", "rate: decimal commas are read as points"})
}

func TestP68_WrongGuessIsAnError(t *testing.T) {
	// Valid in several encodings, common in none.
	refused(t, "a.csv", []byte("\xe9\xf8,\xf0\xfa\n1,2\n"), "encoding")
	// GB18030 with a byte that it does not know.
	refused(t, "b.csv", []byte("\xB6\xA9\xB5\xA5\xBA\xC5,\xBD\xF0\xB6\xEE\n\xB1\xB1\xBE\xA9,\xff\n"), "encoding")
	// UTF-8 by its mark, but not by its bytes.
	refused(t, "c.csv", []byte("\xEF\xBB\xBFid\n\xB1\xB1\n"), "encoding")
}

func TestP68_ChineseAfterTheFirst64KiB(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,city\n")
	for i := 0; b.Len() < 80<<10; i++ {
		fmt.Fprintf(&b, "%d,Berlin\n", i)
	}
	b.WriteString("7,北京\n")
	s := rowsOf(t, "a.csv", []byte(b.String()))
	equal(t, s[0].rows[len(s[0].rows)-1], []string{"7", "北京"})
	gbk, err := simplifiedchinese.GBK.NewEncoder().String(b.String())
	if err != nil {
		t.Fatal(err)
	}
	s = rowsOf(t, "a.csv", []byte(gbk))
	equal(t, s[0].rows[len(s[0].rows)-1], []string{"7", "北京"})
}

func workbook(t *testing.T, build func(f *excelize.File)) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer f.Close()
	build(f)
	b, err := f.WriteToBuffer()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fill(t *testing.T, f *excelize.File, sheet string, rows ...[]any) {
	t.Helper()
	if i, _ := f.GetSheetIndex(sheet); i < 0 {
		if _, err := f.NewSheet(sheet); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range rows {
		if err := f.SetSheetRow(sheet, fmt.Sprintf("A%d", i+1), &r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestP69_AllSheets(t *testing.T) {
	content := workbook(t, func(f *excelize.File) {
		fill(t, f, "Sales", []any{"id", "amt"}, []any{1, 10}, []any{2, 20})
		fill(t, f, "It's Q2", []any{"id", "qty"}, []any{1, 5}, []any{2, 6}, []any{3, 7})
		fill(t, f, "Empty")
		f.DeleteSheet("Sheet1")
	})
	s := rowsOf(t, "a.xlsx", content)
	if len(s) != 3 {
		t.Fatalf("%d sheets", len(s))
	}
	equal(t, []string{s[0].table.Name, s[1].table.Name, s[2].table.Name}, []string{"Sales", "It's Q2", "Empty"})
	equal(t, s[0].rows, [][]string{{"1", "10"}, {"2", "20"}})
	equal(t, len(s[1].rows), 3)
	equal(t, sum(t, s[1], "qty"), 18.0)
	equal(t, len(s[2].table.Columns)+len(s[2].rows), 0)
	out := parsed(t, "a.xlsx", content)
	equal(t, len(out.Tables), 3)
	for _, want := range []string{"## Sales", "## It's Q2", "## Empty\n\n(The sheet is empty.)", "| 3 | 7 |"} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("%q is not in %s", want, out.Text)
		}
	}
}

func TestP70_TwoHeaderRowsWithMergedCells(t *testing.T) {
	content := workbook(t, func(f *excelize.File) {
		fill(t, f, "Sheet1", []any{"地区", "收入", nil}, []any{nil, "线上", "线下"}, []any{"华北", 1, 2}, []any{"华南", 3, 4})
		f.MergeCell("Sheet1", "A1", "A2")
		f.MergeCell("Sheet1", "B1", "C1")
	})
	s := rowsOf(t, "a.xlsx", content)
	equal(t, names(s[0].table), []string{"地区", "收入_线上", "收入_线下"})
	equal(t, kinds(s[0].table), []string{"text", "integer", "integer"})
	equal(t, s[0].rows, [][]string{{"华北", "1", "2"}, {"华南", "3", "4"}})
	equal(t, sum(t, s[0], "收入_线上"), 4.0)
	equal(t, s[0].table.Notes, []string{"the header has 2 rows; their names are joined with _"})
}

func TestP70_DuplicateNamesBecomeDistinct(t *testing.T) {
	s := rowsOf(t, "a.csv", []byte("id,value,VALUE,,value_2,value\n1,2,3,4,5,6\n"))
	equal(t, names(s[0].table), []string{"id", "value", "VALUE_2", "column_4", "value_2_2", "value_3"})
	if len(s[0].table.Notes) != 3 {
		t.Errorf("%q", s[0].table.Notes)
	}
}

func TestXLSX_Values(t *testing.T) {
	content := workbook(t, func(f *excelize.File) {
		fill(t, f, "Sheet1", []any{"when", "at", "number", "text", "yes", "money", "long"}, []any{45293, 45293.5, 0.1 + 0.2, "007", true, 1234.5, 12345678901234}, []any{45294, 45294.25, 1e-3, "008", false, -2, 3})
		for cell, code := range map[string]string{"A": "m/d/yy", "B": `yyyy"年"m"月"d"日" h:mm`, "F": `[$¥-804]#,##0.00;[Red]-#,##0.00`} {
			style, err := f.NewStyle(&excelize.Style{CustomNumFmt: &code})
			if err != nil {
				t.Fatal(err)
			}
			f.SetCellStyle("Sheet1", cell+"2", cell+"3", style)
		}
	})
	s := rowsOf(t, "a.xlsx", content)
	equal(t, s[0].rows, [][]string{{"2024-01-02", "2024-01-02 12:00:00", "0.3", "007", "TRUE", "1234.5", "12345678901234"}, {"2024-01-03", "2024-01-03 06:00:00", "0.001", "008", "FALSE", "-2", "3"}})
	equal(t, kinds(s[0].table), []string{"date", "date", "number", "text", "boolean", "number", "integer"})
}

func TestXLSX_TitleMergedCellsAndHiddenSheets(t *testing.T) {
	content := workbook(t, func(f *excelize.File) {
		fill(t, f, "Sheet1", []any{"2024 sales"}, []any{"region", "city", "sum"}, []any{"north", "a", 1}, []any{nil, "b", 2}, []any{"合计", nil, 3})
		f.MergeCell("Sheet1", "A1", "C1")
		f.MergeCell("Sheet1", "A3", "A4")
		fill(t, f, "secret", []any{"k", "v"}, []any{"a", 1})
		f.SetSheetVisible("secret", false)
	})
	s := rowsOf(t, "a.xlsx", content)
	equal(t, names(s[0].table), []string{"region", "city", "sum"})
	equal(t, s[0].rows, [][]string{{"north", "a", "1"}, {"north", "b", "2"}, {"合计", "", "3"}})
	equal(t, s[0].table.Notes, []string{"before the header: 2024 sales", "cells that are merged downwards repeat their value in each row", "the last row may be a total: 合计 3"})
	equal(t, s[1].table.Notes, []string{"the sheet is hidden"})
}

// A sheet whose XML is too large to be held in memory goes through a file.
func TestXLSX_LargeSheet(t *testing.T) {
	var content []byte
	{
		f := excelize.NewFile()
		defer f.Close()
		w, err := f.NewStreamWriter("Sheet1")
		if err != nil {
			t.Fatal(err)
		}
		w.SetRow("A1", []any{"id", "text"})
		for i := range 40_000 {
			if err := w.SetRow(fmt.Sprintf("A%d", i+2), []any{i, strings.Repeat("x", 100) + strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		b, err := f.WriteToBuffer()
		if err != nil {
			t.Fatal(err)
		}
		content = b.Bytes()
	}
	out := parsed(t, "a.xlsx", content)
	equal(t, out.Tables[0].Rows, 40_000)
	if !strings.Contains(out.Text, "(5000 of 40000 rows are shown; 35000 more are in the file.)") || len(out.Text) > 1_000_000 {
		t.Errorf("%d bytes: %s", len(out.Text), out.Text[len(out.Text)-200:])
	}
}

// Of wide rows fewer are shown, and the rest is still there to be analysed.
func TestCSV_TextIsBounded(t *testing.T) {
	content := []byte("id,text\n" + strings.Repeat("1,"+strings.Repeat("x", 499)+"\n", 4000))
	out := parsed(t, "a.csv", content)
	if n := strings.Count(out.Text, "| 1 |"); n < 2000 || n >= 4000 || len(out.Text) > maxText+1000 || !strings.Contains(out.Text, fmt.Sprintf("(%d of 4000 rows are shown; %d more are in the file.)", n, 4000-n)) {
		t.Errorf("%d rows, %d bytes: %s", n, len(out.Text), out.Text[len(out.Text)-200:])
	}
	if s := rowsOf(t, "a.csv", content); len(s[0].rows) != 4000 {
		t.Errorf("%d rows", len(s[0].rows))
	}
}

func TestCSV_Forms(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		names   []string
		rows    [][]string
	}{
		"quoted newlines":  {"a,b\n\"x\ny\",\"say \"\"hi\"\", ok\"\n", []string{"a", "b"}, [][]string{{"x\ny", "say \"hi\", ok"}}},
		"tabs":             {"a\tb\n1\t2,5\n", []string{"a", "b"}, [][]string{{"1", "2.5"}}},
		"bars":             {"a|b\n1|2\n", []string{"a", "b"}, [][]string{{"1", "2"}}},
		"one column":       {"name\nx\ny\n", []string{"name"}, [][]string{{"x"}, {"y"}}},
		"said by Excel":    {"sep=;\na;b\n1;2\n", []string{"a", "b"}, [][]string{{"1", "2"}}},
		"ragged":           {"a,b\n1\n1,2,3\n", []string{"a", "b", "column_3"}, [][]string{{"1", "", ""}, {"1", "2", "3"}}},
		"no header":        {"1,2\n3,4\n", []string{"column_1", "column_2"}, [][]string{{"1", "2"}, {"3", "4"}}},
		"title":            {"Report of the year\n\na,b,c\n1,2,3\n", []string{"a", "b", "c"}, [][]string{{"1", "2", "3"}}},
		"blank lines":      {"a,b\n1,2\n\n\n3,4\n", []string{"a", "b"}, [][]string{{"1", "2"}, {"3", "4"}}},
		"lines of Macs":    {"a,b\r1,2\r3,4\r", []string{"a", "b"}, [][]string{{"1", "2"}, {"3", "4"}}},
		"thousands":        {"a,b\nx,\"1,234.5\"\ny,2\n", []string{"a", "b"}, [][]string{{"x", "1234.5"}, {"y", "2"}}},
		"zeros kept":       {"zip,n\n01067,1\n", []string{"zip", "n"}, [][]string{{"01067", "1"}}},
		"German":           {"Datum;Wert\n02.01.2024;1.234,5\n03.01.2024;7\n", []string{"Datum", "Wert"}, [][]string{{"2024-01-02", "1234.5"}, {"2024-01-03", "7"}}},
		"Chinese dates":    {"日期,值\n2024年1月2日,1\n2024/1/3,2\n", []string{"日期", "值"}, [][]string{{"2024-01-02", "1"}, {"2024-01-03", "2"}}},
		"header only":      {"a,b\n", []string{"a", "b"}, nil},
		"stray quote":      {"a,b\n5\" pipe,2\n", []string{"a", "b"}, [][]string{{"5\" pipe", "2"}}},
		"semicolon, text":  {"a;b\nx, y;1\nz, w;2\n", []string{"a", "b"}, [][]string{{"x, y", "1"}, {"z, w", "2"}}},
		"note of one cell": {"a,b,c\n1,2,3\n\nSource: a bank\n", []string{"a", "b", "c"}, [][]string{{"1", "2", "3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := rowsOf(t, "x.csv", []byte(c.content))
			equal(t, names(s[0].table), c.names)
			equal(t, s[0].rows, c.rows)
		})
	}
}

func TestCSV_TooWide(t *testing.T) {
	refused(t, "a.csv", []byte(strings.Repeat("a,", 9_999)+"a\n"+strings.Repeat("1,", 9_999)+"1\n"), "too_many_columns")
	refused(t, "a.csv", []byte("a,b\n"+strings.Repeat(",", 3_000_000)), "too_many_columns")
	refused(t, "a.csv", []byte("a,b\n"+strings.Repeat(strings.Repeat(",", 900_000)+"\"\n\"", 4)), "too_many_columns")
	if s := rowsOf(t, "a.csv", []byte(strings.Repeat("a,", 999)+"a\n"+strings.Repeat("1,", 999)+"1\n")); len(s[0].table.Columns) != 1000 {
		t.Errorf("%d columns", len(s[0].table.Columns))
	}
	refused(t, "a.xlsx", workbook(t, func(f *excelize.File) { f.SetCellValue("Sheet1", "XFD1", "x") }), "too_many_columns")
	refused(t, "a.csv", []byte("a,b\n\""+strings.Repeat("x\n", 3<<20)), "damaged")
}

func TestTables_ErrorsOfTheCallbacksComeBack(t *testing.T) {
	own := errors.New("disk full")
	f := func() handlers.File { return file("a.csv", []byte("a,b\n1,2\n")) }
	if err := new(Parser).Tables(t.Context(), f(), func(handlers.Table) error { return own }, nil); err != own {
		t.Error(err)
	}
	if err := new(Parser).Tables(t.Context(), f(), func(handlers.Table) error { return nil }, func([]string) error { return own }); err != own {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Parser).Parse(ctx, f()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("\xEF\xBB\xBFid,name\n1,A\n"))
	f.Add([]byte("date;rate\r\n2024-01-02;4,3547\r\n\r\nfull name;currency note\r\n"))
	f.Add([]byte("\xB6\xA9\xB5\xA5\xBA\xC5,\xBD\xF0\xB6\xEE\r\n\xB1\xB1\xBE\xA9,12\r\n"))
	f.Add([]byte("a,a\n\"x\n1,\"\"\"2\"\n\n\n,\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		p := new(Parser)
		out, err := p.Parse(t.Context(), file("a.csv", content))
		var known *handlers.ParseError
		if err != nil {
			if !errors.As(err, &known) {
				t.Fatalf("%v", err)
			}
			return
		}
		rows := 0
		err = p.Tables(t.Context(), file("a.csv", content), func(tb handlers.Table) error {
			equal(t, tb, out.Tables[0])
			seen := map[string]bool{}
			for _, c := range tb.Columns {
				if key := strings.ToLower(c.Name); seen[key] || key == "" {
					t.Fatalf("the name %q in %q", c.Name, names(tb))
				} else {
					seen[key] = true
				}
			}
			return nil
		}, func(cells []string) error {
			if rows++; len(cells) != len(out.Tables[0].Columns) {
				t.Fatalf("%d cells", len(cells))
			}
			return nil
		})
		if err != nil || rows != out.Tables[0].Rows {
			t.Fatalf("%d rows of %d: %v", rows, out.Tables[0].Rows, err)
		}
		if strings.ContainsRune(out.Text, '\uFFFD') && !bytes.Contains(content, []byte("\uFFFD")) {
			t.Fatal("a wrong guess became U+FFFD")
		}
	})
}

// A row of data below a merged header cell stays data.
func TestXLSX_DataUnderAMergedHeader(t *testing.T) {
	f := excelize.NewFile()
	defer f.Close()
	for cell, v := range map[string]any{"A1": "Contact", "C1": "Qty", "A2": "Ann", "B2": "ann@x.org", "C2": 5, "A3": "Bob", "B3": "bob@x.org", "C3": 7} {
		if err := f.SetCellValue("Sheet1", cell, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.MergeCell("Sheet1", "A1", "B1"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	out := parsed(t, "a.xlsx", b.Bytes())
	if tab := out.Tables[0]; tab.Rows != 2 || !strings.Contains(out.Text, "| Ann | ann@x.org | 5 |") {
		t.Errorf("%+v\n%s", tab, out.Text)
	}
}
