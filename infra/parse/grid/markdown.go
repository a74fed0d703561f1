package grid

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const (
	maxShown = 5000 // rows of a table in the text of a file
	maxCell  = 500  // runes of a cell in it
)

// Markdown writes the first rows of a table as Markdown, at most about size bytes,
// and says how many are left.
func (l *Layout) Markdown(ctx context.Context, src Source, size int) (string, error) {
	var b strings.Builder
	if l.Table.Name != "" {
		fmt.Fprintf(&b, "## %s\n\n", Escape(short(l.Table.Name, 200)))
	}
	if len(l.Table.Columns) == 0 {
		b.WriteString("(The sheet is empty.)\n")
		return b.String(), nil
	}
	names := make([]string, len(l.Table.Columns))
	for i, c := range l.Table.Columns {
		names[i] = c.Name
	}
	line(&b, names)
	b.WriteString("|" + strings.Repeat("---|", len(names)) + "\n")
	shown := 0
	err := l.Read(ctx, src, func(cells []string) error {
		if shown == maxShown || b.Len() > size {
			return errEnough
		}
		line(&b, cells)
		shown++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return "", err
	}
	if left := l.Table.Rows - shown; left > 0 {
		fmt.Fprintf(&b, "\n(%d of %d rows are shown; %d more are in the file.)\n", shown, l.Table.Rows, left)
	}
	for _, n := range l.Table.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", Escape(n))
	}
	return b.String(), nil
}

var errEnough = errors.New("enough rows")

func line(b *strings.Builder, cells []string) {
	b.WriteByte('|')
	for _, c := range cells {
		b.WriteByte(' ')
		b.WriteString(Escape(short(c, maxCell)))
		b.WriteString(" |")
	}
	b.WriteByte('\n')
}

var escaper = strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;")

// Escape writes text so that it stays in its cell.
func Escape(s string) string { return escaper.Replace(s) }

// Text is a table file as Markdown: the tables one after the other, each with its
// share of size.
func Text(parts []string) string { return strings.TrimSpace(strings.Join(parts, "\n")) }
