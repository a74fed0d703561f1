package handlers

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"refold/domain/knowledge"
)

// Bounds of what is said about tables.
const (
	maxTables       = 200
	maxTableColumns = 1000 // that get a chunk of their own, in all sheets of a file
	maxColumnsNamed = 200  // in the summary of a sheet
	maxSamples      = 10
	maxSample       = 80 // runes
)

// tableSlices say what a table file holds: one slice for each sheet, and one for
// each of its columns. Who looks for a kind of data finds the file by them.
func tableSlices(tables []Table, count func(string) int) []knowledge.Slice {
	var out []knowledge.Slice
	add := func(kind knowledge.Kind, context, text string) {
		out = append(out, knowledge.Slice{Kind: kind, Parent: -1, Context: context, Content: text, Tokens: count(text)})
	}
	if len(tables) > maxTables {
		tables = tables[:maxTables]
	}
	columns := 0
	for i, t := range tables {
		name := line(t.Name)
		if name == "" {
			name = "Table"
			if len(tables) > 1 {
				name = fmt.Sprintf("Table %d", i+1)
			}
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %d rows, %d columns.\nColumns:", name, t.Rows, len(t.Columns))
		for k, c := range t.Columns {
			if k == maxColumnsNamed {
				fmt.Fprintf(&b, "\n- and %d more", len(t.Columns)-k)
				break
			}
			fmt.Fprintf(&b, "\n- %s (%s)", line(c.Name), c.Type)
		}
		for _, n := range t.Notes {
			fmt.Fprintf(&b, "\nNote: %s", shorten(line(n), 300))
		}
		add(knowledge.TableSummary, "", b.String())
		for _, c := range t.Columns {
			if columns++; columns > maxTableColumns {
				break
			}
			add(knowledge.TableColumn, name, columnText(c, t.Rows))
		}
	}
	return out
}

func columnText(c Column, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Column %s (%s)", line(c.Name), c.Type)
	if c.Empty > 0 {
		fmt.Fprintf(&b, ", empty in %d of %d rows", c.Empty, rows)
	}
	b.WriteString(".")
	for i, s := range c.Samples {
		if s = shorten(line(s), maxSample); s == "" || i >= maxSamples {
			continue
		}
		if i == 0 {
			b.WriteString("\nSamples: ")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// line makes text one line of valid text.
func line(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "")
	}
	return strings.Join(strings.Fields(s), " ")
}
