package docx

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"refold/handlers"
	"refold/infra/parse/archive"
)

// writer turns the elements of a part into Markdown. What does not show in the
// document (deleted text, hidden text, codes of fields, fallbacks for old
// programs) is left out.
type writer struct {
	doc   *document
	out   strings.Builder
	each  string            // of notes: the element that holds one
	texts map[string]string // of notes, by id
	id    string

	texting   int // depth inside elements that hold text
	para      []*paragraph
	tables    []*table
	hidden    bool
	numbers   map[string]int // of lists
	wasInList bool
	cut       bool // cells were left out
}

type paragraph struct {
	text    strings.Builder
	heading int
	num     string
	level   int
	link    string
}

type table struct {
	rows  [][]string
	cell  strings.Builder
	span  int
	down  bool // the cell goes on from the one above
	cells int
	full  bool // it has more cells than can be read
}

// maxCells is how many cells of a table are read at most.
const maxCells = 200_000

// maxCell is how long the text of a cell is, in bytes.
const maxCell = 1 << 20

func (w *writer) walk(dec *xml.Decoder) error {
	w.numbers = map[string]int{}
	depth, skipped := 0, 0
	for n := 0; ; n++ {
		if n%1024 == 0 && w.doc.ctx.Err() != nil {
			return w.doc.ctx.Err()
		}
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archive.Damaged(err)
		}
		if w.out.Len() > handlers.MaxParsed+1 {
			return &handlers.ParseError{Code: "too_large", Message: "the document holds too much text: split it"}
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return archive.Damaged(fmt.Errorf("elements nest deeper than %d", maxDepth))
			}
			if skipped > 0 || unseen[t.Name.Local] {
				skipped++
				continue
			}
			if !drawing(t.Name) {
				w.start(t)
			} else if t.Name.Local == "t" {
				w.texting++
			}
		case xml.EndElement:
			depth--
			if skipped > 0 {
				skipped--
				continue
			}
			if !drawing(t.Name) {
				w.end(t.Name.Local)
			} else if t.Name.Local == "t" {
				w.texting--
			}
		case xml.CharData:
			if skipped == 0 && w.texting > 0 {
				w.write(string(t))
			}
		}
	}
}

// unseen are elements whose content does not show, or shows twice.
var unseen = map[string]bool{"del": true, "moveFrom": true, "instrText": true, "delText": true, "Fallback": true, "rPrChange": true, "pPrChange": true, "sectPr": true, "delInstrText": true}

func value(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func on(t xml.StartElement) bool {
	switch value(t, "val") {
	case "0", "false", "off", "none":
		return false
	}
	return true
}

func (w *writer) start(t xml.StartElement) {
	switch name := t.Name.Local; name {
	case w.each:
		w.id = value(t, "id")
		w.out.Reset()
	case "p":
		w.para = append(w.para, &paragraph{})
	case "tbl":
		w.tables = append(w.tables, &table{})
	case "tr":
		if tb := w.table(); tb != nil {
			tb.rows = append(tb.rows, nil)
		}
	case "tc":
		if tb := w.table(); tb != nil {
			tb.cell.Reset()
			tb.span, tb.down = 1, false
		}
	case "gridSpan":
		if tb := w.table(); tb != nil {
			fmt.Sscan(value(t, "val"), &tb.span)
			tb.span = min(max(tb.span, 1), 63)
		}
	case "vMerge":
		if tb := w.table(); tb != nil {
			tb.down = value(t, "val") != "restart"
		}
	case "r":
		w.hidden = false
	case "vanish":
		w.hidden = on(t)
	case "t":
		w.texting++ // text follows
	case "tab":
		if len(w.para) > 0 && w.para[len(w.para)-1].text.Len() > 0 {
			w.write("\t")
		}
	case "br", "cr":
		w.write("\n")
	case "noBreakHyphen":
		w.write("-")
	case "hyperlink":
		if p := w.paragraph(); p != nil {
			if p.link = w.doc.links[value(t, "id")]; p.link != "" {
				p.text.WriteByte('[')
			}
		}
	case "footnoteReference", "endnoteReference":
		w.reference(noteRef{strings.TrimSuffix(name, "Reference"), value(t, "id")})
	default:
		w.property(t)
	}
}

// property notes what a paragraph says about itself.
func (w *writer) property(t xml.StartElement) {
	p := w.paragraph()
	if p == nil {
		return
	}
	switch t.Name.Local {
	case "pStyle":
		p.heading = w.doc.headings[value(t, "val")]
	case "outlineLvl":
		if v := value(t, "val"); p.heading == 0 && len(v) == 1 && v[0] >= '0' && v[0] <= '5' {
			p.heading = int(v[0]-'0') + 1
		}
	case "numId":
		p.num = value(t, "val")
	case "ilvl":
		fmt.Sscan(value(t, "val"), &p.level)
		p.level = min(max(p.level, 0), 8)
	}
}

// drawing tells the elements of DrawingML, which have names like those of the
// text. What is written in shapes belongs to the paragraph that they stand in.
func drawing(n xml.Name) bool { return strings.Contains(n.Space, "/drawingml/") }

func (w *writer) end(name string) {
	switch name {
	case w.each:
		w.texts[w.id] = strings.TrimSpace(w.out.String())
		w.out.Reset()
	case "p":
		w.endParagraph()
	case "t":
		w.texting--
	case "hyperlink":
		if p := w.paragraph(); p != nil && p.link != "" {
			p.text.WriteString("](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(p.link) + ")")
			p.link = ""
		}
	case "tc":
		if tb := w.table(); tb != nil && len(tb.rows) > 0 {
			tb.add()
		}
	case "tbl":
		w.endTable()
	}
}

func (w *writer) table() *table {
	if len(w.tables) == 0 {
		return nil
	}
	return w.tables[len(w.tables)-1]
}

func (w *writer) paragraph() *paragraph {
	if len(w.para) == 0 {
		return nil
	}
	return w.para[len(w.para)-1]
}

func (w *writer) write(s string) {
	if p := w.paragraph(); p != nil && !w.hidden {
		p.text.WriteString(s)
	}
}

func (w *writer) reference(n noteRef) {
	if w.each != "" || w.hidden || n.id == "" || len(n.id) > 9 || len(w.doc.notes) >= 10_000 {
		return
	}
	w.write("[^" + n.label() + "]")
	w.doc.notes = append(w.doc.notes, n)
}

func (w *writer) endParagraph() {
	p := w.paragraph()
	if p == nil {
		return
	}
	text := strings.TrimSpace(p.text.String())
	heading, num, level := p.heading, p.num, p.level
	w.para = w.para[:len(w.para)-1]
	if text == "" {
		return
	}
	if tb := w.table(); tb != nil {
		tb.write(text)
		return
	}
	inList := num != "" && num != "0" && heading == 0
	if w.out.Len() > 0 {
		w.out.WriteByte('\n')
		if !inList || !w.wasInList {
			w.out.WriteByte('\n')
		}
	}
	switch {
	case heading > 0:
		text = strings.Repeat("#", heading) + " " + strings.Join(strings.Fields(text), " ")
	case inList:
		mark := "- "
		if w.doc.ordered[fmt.Sprintf("%s/%d", num, level)] {
			mark = w.number(num, level)
		}
		text = strings.Repeat("  ", level) + mark + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat("  ", level+1))
	default:
		text = literal(text)
	}
	w.wasInList = inList
	w.out.WriteString(text)
}

func (w *writer) number(num string, level int) string {
	key := fmt.Sprintf("%s/%d", num, level)
	w.numbers[key]++
	for deeper := level + 1; deeper < 9; deeper++ {
		delete(w.numbers, fmt.Sprintf("%s/%d", num, deeper))
	}
	return fmt.Sprintf("%d. ", w.numbers[key])
}

// literal keeps text from looking like a heading or code.
func literal(s string) string {
	for _, mark := range []string{"#", "```", "~~~"} {
		if strings.HasPrefix(s, mark) {
			return `\` + s
		}
	}
	return s
}

// write adds to the text of a cell, up to maxCell: merged cells of tables in tables
// would multiply it without end.
func (t *table) write(text string) {
	if t.cell.Len()+len(text) > maxCell {
		return
	}
	if t.cell.Len() > 0 {
		t.cell.WriteByte('\n')
	}
	t.cell.WriteString(text)
}

func (t *table) add() {
	text := strings.TrimSpace(t.cell.String())
	t.cell.Reset()
	row := len(t.rows) - 1
	if t.cells += t.span; t.cells > maxCells {
		t.full = true
		return
	}
	for range t.span {
		at := len(t.rows[row])
		cell := text
		if t.down && row > 0 && at < len(t.rows[row-1]) {
			cell = t.rows[row-1][at]
		}
		t.rows[row] = append(t.rows[row], cell)
	}
}

var inCell = strings.NewReplacer("|", `\|`, "\r", "", "\n", "<br>")

// endTable writes a table. One in a cell of another becomes text of the cell.
func (w *writer) endTable() {
	t := w.table()
	if t == nil {
		return
	}
	w.tables = w.tables[:len(w.tables)-1]
	if outer := w.table(); outer != nil {
		for _, r := range t.rows {
			for _, cell := range r {
				if cell != "" {
					outer.write(cell)
				}
			}
		}
		return
	}
	if t.full {
		w.cut = true
	}
	width := 0
	for _, r := range t.rows {
		width = max(width, len(r))
	}
	if width == 0 {
		return
	}
	if w.out.Len() > 0 {
		w.out.WriteString("\n\n")
	}
	w.wasInList = false
	if width*len(t.rows) > 2*maxCells { // a few long rows among many short ones
		for _, r := range t.rows {
			for _, cell := range r {
				if w.out.Len() <= handlers.MaxParsed {
					w.out.WriteString(cell + " ")
				}
			}
			w.out.WriteByte('\n')
		}
		return
	}
	for i, r := range t.rows {
		if w.out.Len() > handlers.MaxParsed {
			return // walk refuses it
		}
		w.out.WriteByte('|')
		for c := range width {
			cell := ""
			if c < len(r) {
				cell = inCell.Replace(r[c])
			}
			w.out.WriteString(" " + cell + " |")
		}
		if i < len(t.rows)-1 {
			w.out.WriteByte('\n')
		}
		if i == 0 {
			if len(t.rows) == 1 {
				w.out.WriteByte('\n')
			}
			w.out.WriteString("|" + strings.Repeat(" --- |", width))
			if len(t.rows) > 1 {
				w.out.WriteByte('\n')
			}
		}
	}
}
