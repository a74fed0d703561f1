// Package grid makes tables of the cells that files hold: it finds the header and
// the footer, names and types columns, and puts values into one form. It imports
// handlers for what a table is.
//
// A file is read twice: Describe looks at all of it, Read gives the rows. Start
// reading at Describe.
package grid

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"refold/handlers"
)

// Limits of one table.
const (
	MaxColumns = 1000
	MaxName    = 128 // runes of a column's name
	maxSamples = 5   // of a column
	maxSample  = 80  // runes
	maxFooter  = 20  // rows after a blank one that may be notes
	lookahead  = 20  // rows in which the header is looked for
	maxHeader  = 4   // rows of a header
)

// Merge is a range of cells that show the value of the first one. Rows and columns
// count from 0, the ends are inside.
type Merge struct{ Row, Column, LastRow, LastColumn int }

// Source is where cells come from: it calls yield for every row in order, also for
// blank ones, until yield fails. Cells are trimmed text.
type Source func(ctx context.Context, yield func(cells []string) error) error

// Options are what is known about a source beside its cells.
type Options struct {
	Name   string
	Merges []Merge // in the order of their rows
	Notes  []string
	Comma  bool // a comma between digits is a decimal one, as in files with semicolons
}

// Layout is what Describe found: the table, and how its rows are read.
type Layout struct {
	Table  handlers.Table
	First  int // rows before the data
	styles []style
	merges []Merge // in the data
	rows   int     // data rows and blank ones among them, to the footer
}

// Describe reads all of the source.
func Describe(ctx context.Context, src Source, o Options) (*Layout, error) {
	d := describer{options: o, taken: map[string]bool{}, next: map[string]int{}, layout: &Layout{Table: handlers.Table{Name: o.Name, Columns: []handlers.Column{}, Notes: o.Notes}}}
	err := src(ctx, func(cells []string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return d.row(cells)
	})
	if err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	d.end()
	return d.layout, nil
}

// Read calls row for each row of the data, its cells in the order of the columns.
// The slice is used again.
func (l *Layout) Read(ctx context.Context, src Source, row func(cells []string) error) error {
	n := -1
	out := make([]string, len(l.Table.Columns))
	fill := filler{merges: l.merges}
	return src(ctx, func(cells []string) error {
		n++
		at := n - l.First
		if at < 0 || at >= l.rows {
			return nil
		}
		if n%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(out) == 0 || blank(cells) {
			return nil
		}
		clear(out)
		copy(out, cells)
		fill.row(n, out)
		for i := range out {
			out[i] = l.styles[i].plain(out[i])
		}
		return row(out)
	})
}

type describer struct {
	options Options
	layout  *Layout
	ahead   [][]string // the first rows, until the header is found
	begun   bool
	seen    int // rows of the source
	columns []*column
	names   int        // columns that the header names
	tail    [][]string // rows after a blank one, with it
	long    int        // rows that are longer than the header
	last    []string
	taken   map[string]bool // names, lower case
	next    map[string]int
	renamed int
	fill    filler
}

func (d *describer) row(cells []string) error {
	if len(cells) > MaxColumns {
		cells = trimEnd(cells)
	}
	if len(cells) > MaxColumns {
		return TooMany(len(cells))
	}
	if !d.begun {
		d.ahead = append(d.ahead, append([]string(nil), cells...))
		if len(d.ahead) >= lookahead && !d.blankSoFar() {
			return d.begin()
		}
		if len(d.ahead) > 1000 {
			d.layout.First += len(d.ahead) - 1
			d.seen += len(d.ahead) - 1
			d.ahead = d.ahead[len(d.ahead)-1:]
		}
		return nil
	}
	d.data(cells)
	return nil
}

// TooMany is the error of a table that is too wide.
func TooMany(n int) error {
	return &handlers.ParseError{Code: "too_many_columns", Message: fmt.Sprintf("the table has %d columns, at most %d can be read: leave out columns, or turn the table on its side", n, MaxColumns)}
}

func (d *describer) blankSoFar() bool {
	for _, r := range d.ahead {
		if !blank(r) {
			return false
		}
	}
	return true
}

// begin finds the header in the first rows, and takes the others as data.
func (d *describer) begin() error {
	if d.begun {
		return nil
	}
	d.begun = true
	first, height := d.header()
	header := d.ahead[first:min(first+height, len(d.ahead))]
	base := d.seen
	d.layout.First = base + first + height
	width := 0
	for _, r := range header {
		width = max(width, len(trimEnd(r)))
	}
	for _, m := range d.options.Merges {
		if m.Row >= base+first && m.Row < base+first+height && m.LastColumn < MaxColumns {
			width = max(width, m.LastColumn+1)
		}
		if m.Row >= d.layout.First {
			d.layout.merges = append(d.layout.merges, m)
		}
	}
	for i := range first {
		if !blank(d.ahead[i]) {
			d.note("before the header: %s", short(strings.Join(nonEmpty(d.ahead[i]), " "), 200))
		}
	}
	d.name(header, base+first, width)
	if len(d.layout.merges) > 0 {
		d.note("cells that are merged downwards repeat their value in each row")
	}
	d.fill = filler{merges: d.layout.merges}
	d.seen = d.layout.First
	rest := d.ahead[min(first+height, len(d.ahead)):]
	d.ahead = nil
	for _, r := range rest {
		d.data(r)
	}
	return nil
}

// header finds the first row of the header and how many rows it has; 0 where the
// table has none.
func (d *describer) header() (first, height int) {
	widest := 0
	for _, r := range d.ahead {
		widest = max(widest, len(nonEmpty(r)))
	}
	for first < len(d.ahead) && (blank(d.ahead[first]) || d.isTitle(first, widest)) {
		first++
	}
	if first == len(d.ahead) {
		return first, 0
	}
	if allNumbers(d.ahead[first]) {
		return first, 0
	}
	height = 1
	for _, m := range d.options.Merges {
		row := m.Row - d.seen - first
		if row < 0 || row >= height || first+row >= len(d.ahead) {
			continue
		}
		last := m.LastRow - m.Row + row + 1
		if m.LastColumn > m.Column {
			last++ // what stands under a wide cell divides it
		}
		height = max(height, min(last, maxHeader))
	}
	for height > 1 && (first+height > len(d.ahead) || allNumbers(d.ahead[first+height-1]) || d.holdsData(first, first+height-1)) {
		height--
	}
	return first, height
}

// holdsData tells whether a row below a header is of the table: it has a number,
// or something where no merged cell stands above.
func (d *describer) holdsData(first, row int) bool {
	for column, cell := range d.ahead[row] {
		if strings.TrimSpace(cell) == "" {
			continue
		}
		if allNumbers([]string{cell}) {
			return true
		}
		under := false
		for _, m := range d.options.Merges {
			at := m.Row - d.seen
			under = under || at >= first && at < row && m.Column <= column && column <= m.LastColumn
		}
		if !under {
			return true
		}
	}
	return false
}

// isTitle tells whether a row is a line above the table.
func (d *describer) isTitle(row, widest int) bool {
	cells := d.ahead[row]
	if row+1 >= len(d.ahead) || len(nonEmpty(cells)) != 1 || widest < 2 {
		return false
	}
	if len(cells) == 1 && len(d.options.Merges) == 0 {
		return true
	}
	if widest > 2 && !d.wideUnder(row) {
		return true
	}
	for _, m := range d.options.Merges {
		if m.Row == d.seen+row && m.Column == 0 && m.LastColumn+1 >= widest {
			return true
		}
	}
	return false
}

// wideUnder tells whether a row has a merged cell that does not span the table, so
// it is a part of the header.
func (d *describer) wideUnder(row int) bool {
	for _, m := range d.options.Merges {
		if m.Row == d.seen+row && m.Column > 0 {
			return true
		}
	}
	return false
}

// name makes the columns.
func (d *describer) name(header [][]string, top, width int) {
	rows := make([][]string, len(header))
	f := filler{merges: d.options.Merges, across: true}
	for i, r := range header {
		rows[i] = make([]string, width)
		copy(rows[i], r)
		f.row(top+i, rows[i])
	}
	if len(header) > 1 {
		d.note("the header has %d rows; their names are joined with _", len(header))
	}
	if len(header) == 0 && len(d.ahead) > 0 {
		d.note("the table has no header; its columns are numbered")
	}
	for c := range width {
		var parts []string
		for _, r := range rows {
			if t := plainName(r[c]); t != "" && (len(parts) == 0 || parts[len(parts)-1] != t) {
				parts = append(parts, t)
			}
		}
		d.column(strings.Join(parts, "_"))
	}
	d.names = width
	if len(header) == 0 {
		d.names = MaxColumns
	}
}

// column adds a column with a name that no other has, also if case is ignored.
func (d *describer) column(name string) {
	n := len(d.columns) + 1
	if name == "" {
		name = fmt.Sprintf("column_%d", n)
	}
	name = cut(name, MaxName)
	if d.taken[strings.ToLower(name)] {
		old, free := name, ""
		for {
			d.next[strings.ToLower(old)]++
			free = fmt.Sprintf("%s_%d", cut(old, MaxName-6), d.next[strings.ToLower(old)]+1)
			if !d.taken[strings.ToLower(free)] {
				break
			}
		}
		name = free
		if d.renamed++; d.renamed <= 10 {
			d.note("the name %q stands over more than one column; the one at place %d is %q", old, n, name)
		}
	}
	d.taken[strings.ToLower(name)] = true
	d.columns = append(d.columns, &column{name: name, comma: d.options.Comma})
}

// data takes a row. From a blank one on, rows wait until it is clear whether they
// are data or notes under the table.
func (d *describer) data(cells []string) {
	if len(d.tail) == 0 && !blank(cells) {
		d.take(cells)
		return
	}
	d.tail = append(d.tail, append([]string(nil), cells...))
	if len(d.tail) <= maxFooter {
		return
	}
	keep := len(d.tail) - 1 // from the last blank row on
	for keep > 0 && !blank(d.tail[keep]) {
		keep--
	}
	if keep == 0 {
		keep = len(d.tail)
	}
	for _, r := range d.tail[:keep] {
		d.take(r)
	}
	d.tail = append(d.tail[:0], d.tail[keep:]...)
}

func (d *describer) take(cells []string) {
	row := d.seen
	d.seen++
	d.layout.rows++
	if blank(cells) {
		return
	}
	d.layout.Table.Rows++
	cells = trimEnd(cells)
	if len(cells) > d.names {
		d.long++
	}
	for len(d.columns) < len(cells) {
		d.column("")
		d.columns[len(d.columns)-1].empty = d.layout.Table.Rows - 1
	}
	out := make([]string, len(d.columns))
	copy(out, cells)
	d.fill.row(row, out)
	for i, c := range d.columns {
		c.add(out[i])
	}
	d.last = out
}

// end decides about the last rows, and describes the columns.
func (d *describer) end() {
	if len(d.tail) > 0 {
		if notes := d.footer(); notes != nil {
			for _, n := range notes {
				d.note("below the table: %s", n)
			}
		} else {
			for _, r := range d.tail {
				d.take(r)
			}
		}
	}
	if d.long > 0 {
		d.note("%d rows are longer than the header; what is too much stands in columns without a name", d.long)
	}
	if len(d.last) > 0 && d.layout.Table.Rows > 2 && isTotal(d.last[0]) {
		d.note("the last row may be a total: %s", short(strings.Join(nonEmpty(d.last), " "), 200))
	}
	d.layout.styles = make([]style, len(d.columns))
	for i, c := range d.columns {
		d.layout.styles[i] = c.style()
		if n := d.layout.styles[i].note(); n != "" {
			d.note("%s: %s", c.name, n)
		}
		d.layout.Table.Columns = append(d.layout.Table.Columns, c.describe(d.layout.styles[i]))
	}
}

// footer is what stands below the table, if the last rows, after a blank one, are
// not like the others; else nil.
func (d *describer) footer() []string {
	var notes []string
	for _, r := range d.tail {
		cells := nonEmpty(r)
		if len(cells) == 0 {
			continue
		}
		if d.layout.Table.Rows == 0 || d.fits(r) {
			return nil
		}
		notes = append(notes, short(strings.Join(cells, " | "), 200))
	}
	if notes == nil {
		notes = []string{} // blank rows only
	}
	return notes
}

// fits tells whether a row is like the data.
func (d *describer) fits(cells []string) bool {
	cells = trimEnd(cells)
	filled := len(nonEmpty(cells))
	if len(d.columns) > 1 && filled == 1 && d.layout.Table.Rows > 0 {
		return false
	}
	for i, v := range cells {
		if i >= len(d.columns) {
			return false
		}
		if v != "" && !d.columns[i].like(v) {
			return false
		}
	}
	return true
}

func (d *describer) note(format string, args ...any) {
	if len(d.layout.Table.Notes) < 40 {
		d.layout.Table.Notes = append(d.layout.Table.Notes, fmt.Sprintf(format, args...))
	}
}

// filler repeats the values of merged cells: downwards, and in headers also to the
// right.
type filler struct {
	merges []Merge
	across bool
	open   []running
}

type running struct {
	Merge
	value string
}

func (f *filler) row(n int, cells []string) {
	kept := f.open[:0]
	for _, r := range f.open {
		if r.LastRow >= n {
			kept = append(kept, r)
		}
	}
	f.open = kept
	for len(f.merges) > 0 && f.merges[0].Row <= n {
		m := f.merges[0]
		f.merges = f.merges[1:]
		if m.Row == n && m.Column < len(cells) && cells[m.Column] != "" && (f.across || m.LastRow > m.Row) && len(f.open) < MaxColumns {
			f.open = append(f.open, running{m, cells[m.Column]})
		}
	}
	for _, r := range f.open {
		last := r.Column
		if f.across {
			last = r.LastColumn
		}
		for c := r.Column; c <= last && c < len(cells); c++ {
			if cells[c] == "" {
				cells[c] = r.value
			}
		}
	}
}

func blank(cells []string) bool {
	for _, c := range cells {
		if c != "" {
			return false
		}
	}
	return true
}

func nonEmpty(cells []string) []string {
	var out []string
	for _, c := range cells {
		if c != "" {
			out = append(out, c)
		}
	}
	return out
}

func trimEnd(cells []string) []string {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}

func plainName(s string) string { return strings.Join(strings.Fields(s), " ") }

func short(s string, runes int) string {
	s = plainName(s)
	if c := cut(s, runes); c != s {
		return c + "…"
	}
	return s
}

func cut(s string, runes int) string {
	at := 0
	for n := 0; at < len(s); n++ {
		if n == runes {
			return s[:at]
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s
}

func isTotal(s string) bool {
	switch strings.ToLower(strings.TrimRight(strings.ReplaceAll(s, " ", ""), ":：")) {
	case "total", "totals", "sum", "grandtotal", "合计", "总计", "小计", "总和", "合計", "總計", "summe", "gesamt":
		return true
	}
	return false
}
