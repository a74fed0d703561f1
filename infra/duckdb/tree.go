//go:build cgo

package duckdb

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// functions are those that a statement may call: what computes from its
// arguments, the time and chance. What shows or changes the engine, runs text as
// SQL, or waits, is not among them, and neither is what a later engine brings.
//
//go:embed functions.txt
var functionList string

var functions = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(functionList) {
		out[name] = true
	}
	return out
}()

// tableFunctions are those that may stand in FROM.
var tableFunctions = map[string]bool{"generate_series": true, "json_each": true, "json_tree": true, "range": true, "repeat": true, "repeat_row": true, "unnest": true}

// standard are the views about tables and columns that the SQL standard has.
var standard = map[string]bool{"columns": true, "tables": true}

// errUnread says that the engine gives no tree of a statement.
var errUnread = errors.New("no tree")

// parse gives the engine's own tree of one SELECT, SHOW, DESCRIBE or SUMMARIZE, as
// JSON; errUnread for anything else.
func (s *server) parse(ctx context.Context, sql string) (string, error) {
	rows, err := rowsOf(ctx, s.conn, "SELECT json_serialize_sql("+text(sql)+")::VARCHAR")
	if err != nil {
		return "", err
	}
	raw, _ := rows[0][0].(string)
	var tree struct {
		Error      bool              `json:"error"`
		Statements []json.RawMessage `json:"statements"`
	}
	if err := json.Unmarshal([]byte(raw), &tree); err != nil {
		return "", fmt.Errorf("read the tree of a statement: %w", err)
	}
	if tree.Error || len(tree.Statements) != 1 {
		return "", errUnread
	}
	return raw, nil
}

// explained gives an EXPLAIN anew, with the engine's own words for what it
// explains: the tree that is checked is all that is run.
func (s *server) explained(ctx context.Context, sql string) (statement, tree string, err error) {
	tries := 0
	for i, r := range sql {
		if !unicode.IsSpace(r) && r != ')' {
			continue
		}
		if tries++; tries > 30 {
			break
		}
		at := i + len(string(r))
		if n, err := s.gate.count(sql[:at] + "SELECT 1"); err != nil || n != 1 { // what stands before is not EXPLAIN alone
			continue
		}
		tree, err := s.parse(ctx, sql[at:])
		if errors.Is(err, errUnread) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		rows, err := rowsOf(ctx, s.conn, "SELECT json_deserialize_sql("+text(tree)+")")
		if err != nil {
			return "", "", err
		}
		inner, _ := rows[0][0].(string)
		return "EXPLAIN " + inner, tree, nil
	}
	return "", "", errUnread
}

// forbidden says what of a tree may not be run; "" if nothing is wrong with it.
func (s *server) forbidden(tree string) (string, error) {
	dec := json.NewDecoder(strings.NewReader(tree))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("read the tree of a statement: %w", err)
	}
	c := checker{table: s.loader.table}
	c.walk(v, nil, false)
	return c.problem, nil
}

// checker looks through a tree for what may not be in it.
type checker struct {
	table   string
	problem string // the first
}

func (c *checker) refuse(format string, args ...any) {
	if c.problem == "" {
		c.problem = fmt.Sprintf(format, args...)
	}
}

// walk looks at a node and all below it. known are the names of the WITH clauses
// in reach; from tells that the node is what a FROM calls.
func (c *checker) walk(v any, known []string, from bool) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			c.walk(x, known, false)
		}
	case map[string]any:
		c.node(v, known, from)
	}
}

func (c *checker) node(v map[string]any, known []string, from bool) {
	word := func(key string) string { s, _ := v[key].(string); return strings.ToLower(s) }
	if word("class") == "constant" {
		return
	}
	// A name of a WITH is in reach of the clauses after it, not of its own.
	if with, ok := v["cte_map"].(map[string]any); ok {
		entries, _ := with["map"].([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			c.walk(entry["value"], known, false)
			name, _ := entry["key"].(string)
			known = append(slices.Clip(known), strings.ToLower(name))
		}
	}
	switch word("type") {
	case "base_table":
		c.tableNamed(word("catalog_name"), word("schema_name"), word("table_name"), known)
	case "show_ref":
		name := strings.Trim(word("table_name"), `"`)
		if v["query"] == nil && name != "tables" && name != "__show_tables_expanded" {
			c.refuse("of SHOW only SHOW TABLES and SHOW of a table can be run")
		}
	}
	if name, called := v["function_name"].(string); called {
		switch name = strings.ToLower(name); {
		case from && !tableFunctions[name]:
			c.refuse("the function %s may not be called in FROM", name)
		case !from && !functions[name] && strings.IndexFunc(name, unicode.IsLetter) >= 0: // operators have no letters
			c.refuse("the function %s may not be called", name)
		}
	}
	for key, child := range v {
		switch {
		case key == "cte_map":
		case key == "right" && word("type") == "recursive_cte_node": // may name itself
			c.walk(child, append(slices.Clip(known), word("cte_name")), false)
		default:
			c.walk(child, known, key == "function" && word("type") == "table_function")
		}
	}
}

func (c *checker) tableNamed(catalog, schema, name string, known []string) {
	switch {
	case catalog == "" && schema == "" && slices.Contains(known, name):
	case (catalog == "" || catalog == "memory") && (schema == "" || schema == "main") && name == strings.ToLower(c.table):
	case catalog == "" && schema == "information_schema" && standard[name]:
	default:
		c.refuse("%s is not a table of the file", name)
	}
}
