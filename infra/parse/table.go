package parse

import (
	"context"

	"refold/handlers"
	"refold/infra/parse/grid"
	"refold/infra/parse/xlsx"
)

// book is a table file. Sources can be read more than once.
type book interface {
	Sheets() []string
	Options(sheet int) grid.Options
	Source(sheet int) grid.Source
	Close()
}

var _ book = (*xlsx.Book)(nil)

// maxText is the size, in bytes, of the Markdown of a table file.
const maxText = 1 << 20

func describe(ctx context.Context, b book, sheet int) (*grid.Layout, error) {
	return grid.Describe(ctx, b.Source(sheet), b.Options(sheet))
}

// tables describes all sheets, and writes the first rows of each as Markdown.
func tables(ctx context.Context, f handlers.File, k kind, size int64) (handlers.Parsed, error) {
	var out handlers.Parsed
	var b book
	var err error
	if k == isXLSX {
		b, err = xlsx.Open(ctx, f.Content, size)
	} else {
		var c *csvFile
		if c, err = openCSV(f); err == nil {
			out.Encoding, out.Notes = c.encoding.Name, c.notes()
			b = c
		}
	}
	if err != nil {
		return out, err
	}
	defer b.Close()
	sheets := b.Sheets()
	var parts []string
	empty := true
	for i := range sheets {
		layout, err := describe(ctx, b, i)
		if err != nil {
			return out, err
		}
		part, err := layout.Markdown(ctx, b.Source(i), maxText/len(sheets))
		if err != nil {
			return out, err
		}
		parts = append(parts, part)
		out.Tables = append(out.Tables, layout.Table)
		empty = empty && len(layout.Table.Columns) == 0
	}
	if empty {
		return out, fail("empty", "the file holds no table: all its sheets are empty")
	}
	out.Text = grid.Text(parts)
	return out, nil
}
