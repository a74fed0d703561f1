// Package xlsx reads Excel workbooks as rows of text. It imports excelize for cells
// and number formats; merged cells and where sheets end it reads from the XML
// itself, because excelize loads a whole sheet to tell them and takes a sheet that
// breaks off for one that ends. Start reading at Open.
package xlsx

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"refold/handlers"
	"refold/infra/parse/archive"
	"refold/infra/parse/grid"
)

const (
	maxSheets  = 500
	maxMerges  = 100_000  // of a sheet; further ones are left out
	maxInSheet = 16 << 20 // bytes of a sheet's XML that are held in memory; more goes to a temporary file
)

// Book is an open workbook. It belongs to one goroutine.
type Book struct {
	file   *excelize.File
	sheets []sheet
}

type sheet struct {
	name   string
	path   string
	hidden bool
	merges []grid.Merge
	rows   int // number of the last row
}

// Open reads the workbook, and fails where a sheet is damaged.
func Open(ctx context.Context, r io.ReadSeeker, size int64) (*Book, error) {
	a, err := archive.Open(r, size)
	if err != nil {
		return nil, err
	}
	b := &Book{}
	if b.sheets, err = list(a); err != nil {
		return nil, err
	}
	for i := range b.sheets {
		if err := b.sheets[i].scan(ctx, a); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"xl/sharedStrings.xml", "xl/styles.xml"} {
		if err := a.Whole(name); err != nil {
			return nil, err
		}
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	b.file, err = excelize.OpenReader(r, excelize.Options{UnzipSizeLimit: archive.MaxSize, UnzipXMLSizeLimit: maxInSheet})
	if err != nil {
		b.Close()
		return nil, archive.Damaged(err)
	}
	b.plain()
	return b, nil
}

// Close removes what the workbook has put on disk.
func (b *Book) Close() {
	if b.file != nil {
		b.file.Close()
	}
}

// Sheets are the names of all sheets with cells, also of hidden and empty ones.
func (b *Book) Sheets() []string {
	var out []string
	for _, s := range b.sheets {
		out = append(out, s.name)
	}
	return out
}

// Options are what a sheet says beside its cells.
func (b *Book) Options(i int) grid.Options {
	o := grid.Options{Name: b.sheets[i].name, Merges: b.sheets[i].merges}
	if b.sheets[i].hidden {
		o.Notes = append(o.Notes, "the sheet is hidden")
	}
	return o
}

// Source gives the rows of a sheet: dates as ISO writes them, numbers without the
// noise of binary fractions, formulas as the values that were computed last.
func (b *Book) Source(i int) grid.Source {
	return func(ctx context.Context, yield func([]string) error) error {
		rows, err := b.file.Rows(b.sheets[i].name)
		if err != nil {
			return archive.Damaged(err)
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			if n++; n%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			cells, err := rows.Columns()
			if err != nil {
				return archive.Damaged(err)
			}
			for c := range cells {
				cells[c] = value(cells[c])
			}
			if err := yield(cells); err != nil {
				return err
			}
		}
		if err := rows.Error(); err != nil {
			return archive.Damaged(err)
		}
		if n < b.sheets[i].rows {
			return archive.Damaged(errors.New("a sheet breaks off"))
		}
		return nil
	}
}

// list finds the sheets of a workbook and where they are.
func list(a *archive.Archive) ([]sheet, error) {
	var book struct {
		Sheets []struct {
			Name  string `xml:"name,attr"`
			State string `xml:"state,attr"`
			ID    string `xml:"id,attr"`
		} `xml:"sheets>sheet"`
	}
	if err := a.XML("xl/workbook.xml", &book); err != nil {
		return nil, err
	}
	var rels struct {
		All []struct {
			ID     string `xml:"Id,attr"`
			Type   string `xml:"Type,attr"`
			Target string `xml:"Target,attr"`
		} `xml:"Relationship"`
	}
	if err := a.XML("xl/_rels/workbook.xml.rels", &rels); err != nil {
		return nil, err
	}
	if len(book.Sheets) > maxSheets {
		return nil, &handlers.ParseError{Code: "too_large", Message: "the workbook has more than 500 sheets: split it"}
	}
	var out []sheet
	for _, s := range book.Sheets {
		for _, r := range rels.All {
			if r.ID != s.ID || !strings.HasSuffix(r.Type, "/worksheet") {
				continue
			}
			target := path.Join("xl", r.Target)
			if strings.HasPrefix(r.Target, "/") {
				target = strings.TrimPrefix(path.Clean(r.Target), "/")
			}
			out = append(out, sheet{name: s.Name, path: target, hidden: s.State == "hidden" || s.State == "veryHidden"})
			break
		}
	}
	return out, nil
}

// scan reads the XML of a sheet for its merged cells and its last row, and fails
// if it is not whole.
func (s *sheet) scan(ctx context.Context, a *archive.Archive) error {
	part := a.File(s.path)
	if part == nil {
		return archive.Damaged(errors.New("a sheet is missing"))
	}
	in, err := part.Open()
	if err != nil {
		return archive.Damaged(err)
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, 64<<10)
	ended := false
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := r.ReadSlice('<'); errors.Is(err, bufio.ErrBufferFull) {
			continue
		} else if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return archive.Damaged(err)
		}
		tag, err := r.Peek(512)
		if err != nil && !errors.Is(err, io.EOF) {
			return archive.Damaged(err)
		}
		ended = s.tag(tag) || ended
	}
	if !ended {
		return archive.Damaged(errors.New("a sheet breaks off"))
	}
	slices.SortStableFunc(s.merges, func(a, b grid.Merge) int { return a.Row - b.Row })
	return nil
}

// tag looks at what follows a <, and tells whether it ends the sheet.
func (s *sheet) tag(b []byte) bool {
	if i := bytes.IndexByte(b, '>'); i >= 0 {
		b = b[:i]
	}
	closing := bytes.HasPrefix(b, []byte("/"))
	b = bytes.TrimPrefix(b, []byte("/"))
	if i := bytes.IndexAny(b, ": /"); i > 0 && b[i] == ':' {
		b = b[i+1:]
	}
	name, rest, _ := bytes.Cut(b, []byte(" "))
	switch string(bytes.TrimSuffix(name, []byte("/"))) {
	case "worksheet":
		return closing
	case "row":
		if closing {
			return false
		}
		s.rows++
		if m := rowNumber.FindSubmatch(rest); m != nil {
			if n, err := strconv.Atoi(string(m[1])); err == nil && n <= excelize.TotalRows {
				s.rows = n
			}
		}
	case "mergeCell":
		m := reference.FindSubmatch(rest)
		if m == nil || len(s.merges) >= maxMerges {
			return false
		}
		c1, r1, err1 := excelize.CellNameToCoordinates(string(m[1]))
		c2, r2, err2 := excelize.CellNameToCoordinates(string(m[2]))
		if err1 == nil && err2 == nil && r1 <= r2 && c1 <= c2 {
			s.merges = append(s.merges, grid.Merge{Row: r1 - 1, Column: c1 - 1, LastRow: r2 - 1, LastColumn: c2 - 1})
		}
	}
	return false
}

var (
	rowNumber = regexp.MustCompile(`(?:^|\s)r\s*=\s*["'](\d{1,7})["']`)
	reference = regexp.MustCompile(`ref\s*=\s*["'](\$?[A-Za-z]{1,3}\$?\d{1,7}):(\$?[A-Za-z]{1,3}\$?\d{1,7})["']`)
)

// The formats that are left when plain is done; ids of a workbook's own begin
// at 164.
const (
	dateFormat = 900 + iota
	timeFormat
	bothFormat
	spanFormat
	noFormat // is not there: the value as it is stored
)

// plain gives dates and times ISO's form, and everything else none.
func (b *Book) plain() {
	styles := b.file.Styles
	if styles == nil || styles.CellXfs == nil {
		return
	}
	codes := map[int]string{14: "y-m-d", 15: "d-m-y", 16: "d-m", 17: "m-y", 18: "h:m", 19: "h:m:s", 20: "h:m", 21: "h:m:s", 22: "y-m-d h:m", 45: "m:s", 46: "[h]:m:s", 47: "m:s",
		27: "y-m-d", 28: "m-d", 29: "m-d", 30: "m-d-y", 31: "y-m-d", 32: "h:m", 33: "h:m:s", 36: "y-m", 50: "y-m", 51: "m-d", 52: "y-m", 53: "m-d", 54: "m-d", 57: "y-m", 58: "m-d"}
	if styles.NumFmts != nil {
		for _, f := range styles.NumFmts.NumFmt {
			codes[f.NumFmtID] = f.FormatCode
		}
	}
	for i := range styles.CellXfs.Xf {
		id := noFormat
		if old := styles.CellXfs.Xf[i].NumFmtID; old != nil {
			id = form(codes[*old])
		}
		styles.CellXfs.Xf[i].NumFmtID = &id
	}
	if styles.NumFmts == nil {
		// The type has no name outside the library; a style of our own makes one.
		code := "yyyy-mm-dd"
		if _, err := b.file.NewStyle(&excelize.Style{CustomNumFmt: &code}); err != nil || styles.NumFmts == nil {
			return
		}
	}
	formats := styles.NumFmts.NumFmt[:0]
	first := styles.NumFmts.NumFmt
	if len(first) == 0 {
		return
	}
	for id, code := range []string{"yyyy-mm-dd", "hh:mm:ss", "yyyy-mm-dd hh:mm:ss", "[h]:mm:ss"} {
		f := *first[0]
		f.NumFmtID, f.FormatCode, f.FormatCode16 = dateFormat+id, code, ""
		formats = append(formats, &f)
	}
	styles.NumFmts.NumFmt = formats
}

var literal = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[(?:\$|[A-Za-z]{3,})[^\]]*\]`)

// form says what a number format shows.
func form(code string) int {
	code, _, _ = strings.Cut(code, ";")
	if strings.EqualFold(code, "general") {
		return noFormat
	}
	code = strings.ToLower(literal.ReplaceAllString(code, ""))
	day := strings.ContainsAny(code, "yde") && !strings.ContainsAny(code, "0#?")
	clock := strings.ContainsAny(code, "hs")
	switch {
	case strings.Contains(code, "[h") || strings.Contains(code, "[m") || strings.Contains(code, "[s"):
		return spanFormat
	case day && clock:
		return bothFormat
	case day, strings.Contains(code, "m") && !clock && !strings.ContainsAny(code, "0#?"):
		return dateFormat
	case clock:
		return timeFormat
	}
	return noFormat
}

var noisy = regexp.MustCompile(`^-?\d+(?:\.\d{12,}|(?:\.\d+)?[eE][+-]?\d{1,3})$`)

// value is a cell as text, numbers with the 15 digits that Excel shows.
func value(s string) string {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) { // from escapes such as _x0000_
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	}
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return s
	}
	if day, ok := strings.CutSuffix(s, " 00:00:00"); ok {
		return day
	}
	if len(s) > 40 || !noisy.MatchString(s) {
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
	if err != nil {
		return s
	}
	if size := max(rounded, -rounded); size != 0 && (size < 1e-9 || size >= 1e18) {
		return strconv.FormatFloat(rounded, 'g', -1, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
