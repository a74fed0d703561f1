// Package docx reads Word documents as Markdown: headings, lists, tables, links,
// footnotes.
//
// It reads the XML itself with the standard library: of the packages that exist,
// the ones that are kept well are under AGPL or commercial licences, and the
// others know no footnotes, no lists, or load a document into structures without
// bounds. Start reading at Parse.
package docx

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"refold/handlers"
	"refold/infra/parse/archive"
)

const maxDepth = 300 // of nested elements

// Parse reads a document.
func Parse(ctx context.Context, r io.ReadSeeker, size int64) (handlers.Parsed, error) {
	var out handlers.Parsed
	a, err := archive.Open(r, size)
	if err != nil {
		return out, err
	}
	d := &document{archive: a, ctx: ctx, headings: map[string]int{}, links: map[string]string{}, ordered: map[string]bool{}}
	if err := d.prepare(); err != nil {
		return out, err
	}
	body, err := d.read("word/document.xml")
	if err != nil {
		return out, err
	}
	out.Text = body
	if d.cut {
		out.Notes = append(out.Notes, "a table has more cells than can be read; the last ones were left out")
	}
	for _, n := range d.notes {
		text, err := d.note(n)
		if err != nil {
			return out, err
		}
		out.Text += "\n\n[^" + n.label() + "]: " + strings.ReplaceAll(text, "\n", " ")
	}
	out.Text = strings.TrimSpace(out.Text)
	var core struct {
		Title string `xml:"title"`
	}
	if err := a.XML("docProps/core.xml", &core); err == nil {
		out.Title = strings.Join(strings.Fields(core.Title), " ")
	}
	return out, nil
}

type document struct {
	archive  *archive.Archive
	ctx      context.Context
	headings map[string]int    // levels by style id
	links    map[string]string // targets by relation id
	ordered  map[string]bool   // "numId/level" of numbered lists
	notes    []noteRef
	cut      bool                         // cells were left out
	loaded   map[string]map[string]string // texts of notes by file and id
}

type noteRef struct{ kind, id string } // footnote or endnote

func (n noteRef) label() string {
	if n.kind == "endnote" {
		return "e" + n.id
	}
	return n.id
}

// prepare reads what the body refers to.
func (d *document) prepare() error {
	var styles struct {
		All []struct {
			ID   string `xml:"styleId,attr"`
			Type string `xml:"type,attr"`
			Name struct {
				Val string `xml:"val,attr"`
			} `xml:"name"`
			Outline *struct {
				Val string `xml:"val,attr"`
			} `xml:"pPr>outlineLvl"`
		} `xml:"style"`
	}
	if err := d.archive.XML("word/styles.xml", &styles); err != nil {
		return err
	}
	for _, s := range styles.All {
		if s.Type != "paragraph" {
			continue
		}
		name := strings.ToLower(s.Name.Val)
		if n, ok := strings.CutPrefix(name, "heading "); ok {
			d.level(s.ID, n, 0)
		} else if n, ok := strings.CutPrefix(name, "标题 "); ok {
			d.level(s.ID, n, 0)
		} else if name == "title" || name == "标题" {
			d.headings[s.ID] = 1
		} else if s.Outline != nil {
			d.level(s.ID, s.Outline.Val, 1)
		}
	}
	var rels struct {
		All []struct {
			ID     string `xml:"Id,attr"`
			Mode   string `xml:"TargetMode,attr"`
			Target string `xml:"Target,attr"`
		} `xml:"Relationship"`
	}
	if err := d.archive.XML("word/_rels/document.xml.rels", &rels); err != nil {
		return err
	}
	for _, r := range rels.All {
		if r.Mode == "External" && (strings.HasPrefix(r.Target, "http://") || strings.HasPrefix(r.Target, "https://") || strings.HasPrefix(r.Target, "mailto:")) {
			d.links[r.ID] = r.Target
		}
	}
	return d.numbering()
}

func (d *document) level(style, n string, base int) {
	if l, err := strconv.Atoi(strings.TrimSpace(n)); err == nil && l+base >= 1 && l+base <= 9 {
		d.headings[style] = min(l+base, 6)
	}
}

func (d *document) numbering() error {
	var numbering struct {
		Abstract []struct {
			ID     string `xml:"abstractNumId,attr"`
			Levels []struct {
				Level  string `xml:"ilvl,attr"`
				Format struct {
					Val string `xml:"val,attr"`
				} `xml:"numFmt"`
			} `xml:"lvl"`
		} `xml:"abstractNum"`
		Nums []struct {
			ID       string `xml:"numId,attr"`
			Abstract struct {
				Val string `xml:"val,attr"`
			} `xml:"abstractNumId"`
		} `xml:"num"`
	}
	if err := d.archive.XML("word/numbering.xml", &numbering); err != nil {
		return err
	}
	formats := map[string]map[string]bool{}
	for _, a := range numbering.Abstract {
		formats[a.ID] = map[string]bool{}
		for _, l := range a.Levels {
			formats[a.ID][l.Level] = l.Format.Val != "bullet" && l.Format.Val != "none"
		}
	}
	for _, n := range numbering.Nums {
		for level, ordered := range formats[n.Abstract.Val] {
			d.ordered[n.ID+"/"+level] = ordered
		}
	}
	return nil
}

// read gives the Markdown of a part.
func (d *document) read(name string) (string, error) {
	f := d.archive.File(name)
	if f == nil {
		return "", archive.Damaged(errors.New("the text is missing"))
	}
	in, err := f.Open()
	if err != nil {
		return "", archive.Damaged(err)
	}
	defer in.Close()
	w := &writer{doc: d}
	if err := w.walk(xml.NewDecoder(in)); err != nil {
		return "", err
	}
	d.cut = w.cut
	return w.out.String(), nil
}

// note gives the text of a footnote or an endnote.
func (d *document) note(n noteRef) (string, error) {
	if d.loaded == nil {
		d.loaded = map[string]map[string]string{}
	}
	file := path.Join("word", n.kind+"s.xml")
	if d.loaded[file] == nil {
		d.loaded[file] = map[string]string{}
		f := d.archive.File(file)
		if f == nil {
			return "", nil
		}
		in, err := f.Open()
		if err != nil {
			return "", archive.Damaged(err)
		}
		defer in.Close()
		w := &writer{doc: d, each: n.kind, texts: d.loaded[file]}
		if err := w.walk(xml.NewDecoder(in)); err != nil {
			return "", err
		}
	}
	return d.loaded[file][n.id], nil
}
