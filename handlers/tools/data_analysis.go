package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain/tool"
	"refold/handlers"
)

// DataAnalysisName is the name of the tool that asks table files with SQL.
const DataAnalysisName = "data_analysis"

// DataAnalysis runs SQL on a table file. Not to be offered where there is no
// Analyst.
type DataAnalysis struct {
	Files   handlers.TableFiles
	Analyst handlers.Analyst
}

var _ tool.Cleaner = (*DataAnalysis)(nil)

var dataAnalysisDefinition = tool.Definition{
	Name:  DataAnalysisName,
	Title: "Analyse a table",
	Description: "Compute from a table file (CSV, Excel) with one SQL statement (DuckDB): sums, averages, counts, groups, filters over all its rows. " +
		"Look at data_schema first. Write table and column names in double quotes as data_schema gives them. All sheets are in one table, with __sheet_name if there are several. " +
		"Columns in which every value is a number are numbers; all others are text: cast dates with TRY_CAST(\"x\" AS DATE). " +
		"SELECT, SHOW, DESCRIBE, SUMMARIZE and EXPLAIN only; nothing can be changed.",
	Effect: tool.ReadOnly, Untrusted: true, Timeout: 120 * time.Second,
	Handles: map[string]string{"knowledge_id": tool.HandleDocument},
	Schema: json.RawMessage(`{"type":"object","properties":{
"knowledge_id":{"type":"string","minLength":1,"description":"Handle of the document."},
"sql":{"type":"string","minLength":1,"maxLength":8192,"description":"One statement."}},
"required":["knowledge_id","sql"]}`),
}

// Definition implements tool.Tool.
func (*DataAnalysis) Definition() tool.Definition { return dataAnalysisDefinition }

// tableTypes are the types of files that can be analysed.
var tableTypes = []string{"csv", "tsv", "xlsx", "xls"}

type analysisRows struct {
	DisplayType string           `json:"display_type"`
	Columns     []string         `json:"columns"`
	Rows        []map[string]any `json:"rows"`
	RowCount    int              `json:"row_count"`
	Query       string           `json:"query"`
	Session     string           `json:"session_id"`
	Table       string           `json:"table_name"`
	Truncated   bool             `json:"truncated,omitempty"`
}

// Run implements tool.Tool.
func (t *DataAnalysis) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Document string `json:"knowledge_id"`
		SQL      string `json:"sql"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("data_analysis: " + err.Error()), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	f, ok, err := t.Files.TableFile(ctx, c.Tenant, in.Document)
	if err != nil {
		return tool.Result{}, fmt.Errorf("find a table file: %w", err)
	}
	if !ok || f.Disabled || !c.Scope.Holds(f.Base, in.Document) {
		return outside("The document", in.Document), nil
	}
	if !slices.Contains(tableTypes, f.Type) {
		return tool.Failed(fmt.Sprintf("%q is no table file (CSV, Excel), so it cannot be analysed with SQL. Search it instead.", clipped(f.Title, 100))), nil
	}
	f.Document = in.Document
	a, err := t.Analyst.Query(ctx, c.Run, f.TableFile, in.SQL)
	var told *handlers.QueryError
	var unread *handlers.ParseError
	switch {
	case errors.As(err, &told):
		return tool.Failed(told.Message), nil
	case errors.As(err, &unread):
		return tool.Failed("The file cannot be read as a table: " + unread.Message), nil
	case err != nil:
		return tool.Result{}, fmt.Errorf("analyse a table: %w", err)
	}
	text := tellRows(a.Rows)
	if len(a.Notes) > 0 && len(earlier(c, DataAnalysisName)) == 0 {
		text += "\n[" + strings.Join(a.Notes, "; ") + "; other columns are text]"
	}
	return answer(text, analysisRows{"data_analysis", a.Columns, rowObjects(a.Rows), len(a.Rows.Rows), a.SQL, c.Session, a.Table, a.More})
}

// Clean implements tool.Cleaner: the tables of the run are gone.
func (t *DataAnalysis) Clean(ctx context.Context, run string) error {
	return t.Analyst.Forget(ctx, run)
}
