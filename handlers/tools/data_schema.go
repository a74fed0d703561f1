package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
)

// DataSchemaName is the name of the tool that describes table files.
const DataSchemaName = "data_schema"

// DataSchema tells what a table file holds, as it was found when it was read.
type DataSchema struct{ Index knowledge.Index }

var dataSchemaDefinition = tool.Definition{
	Name:  DataSchemaName,
	Title: "Look at a table",
	Description: "Get the sheets and columns of a table file (CSV, Excel): names, kinds of values, samples, number of rows, and the name of its table for data_analysis. " +
		"Use it before data_analysis, so that names are written as they are.",
	Effect: tool.ReadOnly, Untrusted: true, Handles: map[string]string{"knowledge_id": tool.HandleDocument},
	Schema: json.RawMessage(`{"type":"object","properties":{
"knowledge_id":{"type":"string","minLength":1,"description":"Handle of the document."}},
"required":["knowledge_id"]}`),
}

// Definition implements tool.Tool.
func (*DataSchema) Definition() tool.Definition { return dataSchemaDefinition }

type dataSchema struct {
	Document string   `json:"knowledge_id"`
	Table    string   `json:"table_name"`
	Summary  string   `json:"summary"`
	Columns  []string `json:"columns"`
}

// Run implements tool.Tool.
func (t *DataSchema) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Document string `json:"knowledge_id"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("data_schema: " + err.Error()), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	found, _, err := t.Index.List(ctx, knowledge.List{Tenant: c.Tenant, Document: in.Document, Limit: 1000,
		Kinds: []knowledge.Kind{knowledge.TableSummary, knowledge.TableColumn}})
	if err != nil {
		return tool.Result{}, fmt.Errorf("look at a table: %w", err)
	}
	data := dataSchema{Document: in.Document, Table: handlers.TableName(in.Document), Columns: []string{}}
	var sheets, columns []string
	for _, f := range found {
		switch {
		case !c.Scope.Holds(f.Entry.Base, f.Entry.Document) || f.Entry.Disabled:
			return outside("The document", in.Document), nil
		case f.Kind == knowledge.TableSummary:
			sheets = append(sheets, f.Content)
		default:
			text := f.Content
			if f.Context != "" {
				text = f.Context + ": " + text
			}
			columns = append(columns, text)
			data.Columns = append(data.Columns, f.Content)
		}
	}
	if len(found) == 0 {
		return tool.Failed("There is no table for this document: it is not a table file (CSV, XLSX), is not read yet, or is not part of the knowledge that this question may use."), nil
	}
	data.Summary = strings.Join(sheets, "\n\n")
	var out strings.Builder
	fmt.Fprintf(&out, "Table for data_analysis: %s\n", data.Table)
	if len(sheets) > 1 {
		out.WriteString("The sheets are rows of that one table; its column __sheet_name says which sheet a row is from.\n")
	}
	out.WriteString("\n" + escaped(data.Summary) + "\n")
	for _, text := range columns {
		out.WriteString("\n" + escaped(text))
	}
	return answer(out.String(), data)
}
