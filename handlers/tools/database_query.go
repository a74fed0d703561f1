package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"refold/domain/tool"
	"refold/handlers"
)

// DatabaseQueryName is the name of the tool that asks about the knowledge bases
// with SQL.
const DatabaseQueryName = "database_query"

const (
	shownRows = 200 // rows that the model reads
	shownCell = 500 // runes of a value that the model reads
	shownText = 14000
	keptCell  = 4000 // runes of a value in the data
)

// DatabaseQuery runs SELECT on what the run may see.
type DatabaseQuery struct{ Views handlers.Views }

var databaseQueryDefinition = tool.Definition{
	Name:  DatabaseQueryName,
	Title: "Query the knowledge bases",
	Description: "Ask about the knowledge bases in reach with one SQL SELECT (SQLite): counts, lists, dates, sizes. Not for finding what documents say: search for that. " +
		"Tables: knowledge_bases(id, name, type, description, created_at, updated_at); " +
		"knowledges(id, knowledge_base_id, title, description, type, source, file_name, file_type, file_size, parse_status, chunk_count, created_at, updated_at), the documents; " +
		"chunks(id, knowledge_id, knowledge_base_id, chunk_index, chunk_type, section, content, start_at, end_at), their passages. " +
		"They hold what is in reach and nothing else, so no filter for that is needed. Times are UTC, as 2026-01-31 09:00:00. At most 1000 rows; use count, sum, avg, min, max, GROUP BY and LIMIT. " +
		"Put a document's or base's handle in quotes where an id is compared: WHERE knowledge_id = 'd1'.",
	Effect: tool.ReadOnly, Untrusted: true, Sensitive: true, Handles: map[string]string{"sql": tool.HandleSQL},
	Schema: json.RawMessage(`{"type":"object","properties":{
"sql":{"type":"string","minLength":1,"maxLength":8192,"description":"One SELECT statement."}},
"required":["sql"]}`),
}

// Definition implements tool.Tool.
func (*DatabaseQuery) Definition() tool.Definition { return databaseQueryDefinition }

type databaseRows struct {
	DisplayType string           `json:"display_type"`
	Columns     []string         `json:"columns"`
	Rows        []map[string]any `json:"rows"`
	RowCount    int              `json:"row_count"`
	Truncated   bool             `json:"truncated,omitempty"`
}

// Run implements tool.Tool.
func (t *DatabaseQuery) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		SQL string `json:"sql"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("database_query: the arguments cannot be read"), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	rows, err := t.Views.Query(ctx, c.Tenant, c.Scope, in.SQL)
	var told *handlers.QueryError
	if errors.As(err, &told) {
		return tool.Failed(told.Message), nil
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("query the knowledge bases: %w", err)
	}
	return answer(tellRows(rows), databaseRows{"database_query", rows.Columns, rowObjects(rows), len(rows.Rows), rows.More})
}

// rowObjects are rows as the UI shows them.
func rowObjects(r handlers.Rows) []map[string]any {
	out := make([]map[string]any, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = make(map[string]any, len(row))
		for k, name := range r.Columns {
			v := row[k]
			if text, ok := v.(string); ok {
				v, _ = shorten(text, keptCell)
			}
			out[i][name] = v
		}
	}
	return out
}

// tellRows shows rows to the model: a JSON list of the columns' names, then one
// of values for each row.
func tellRows(r handlers.Rows) string {
	var b strings.Builder
	list := func(values []any) string {
		var line strings.Builder
		line.WriteByte('[')
		for i, v := range values {
			if i > 0 {
				line.WriteByte(',')
			}
			if text, ok := v.(string); ok {
				short, _ := shorten(text, shownCell)
				v = short
			}
			cell, err := json.Marshal(v) // which writes < as \u003c: no value can forge a tag
			if err != nil {              // a number that JSON has no word for
				cell = []byte(strconv.Quote(fmt.Sprint(v)))
			}
			line.Write(cell)
		}
		line.WriteByte(']')
		return line.String()
	}
	names := make([]any, len(r.Columns))
	for i, n := range r.Columns {
		names[i] = n
	}
	b.WriteString(list(names) + "\n")
	shown := 0
	for _, row := range r.Rows {
		line := list(row)
		if shown == shownRows || b.Len()+len(line) > shownText && shown > 0 {
			break
		}
		b.WriteString(line + "\n")
		shown++
	}
	switch {
	case len(r.Rows) == 0:
		b.WriteString("No rows.")
	case r.More:
		fmt.Fprintf(&b, "%d rows are shown; there are more than %d. Narrow the query, or aggregate.", shown, len(r.Rows))
	case shown < len(r.Rows):
		fmt.Fprintf(&b, "%d of %d rows are shown. Use LIMIT with OFFSET for the rest, or aggregate.", shown, len(r.Rows))
	default:
		fmt.Fprintf(&b, "%d rows.", shown)
	}
	return b.String()
}
