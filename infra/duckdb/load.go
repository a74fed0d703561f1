//go:build cgo

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"refold/infra/analysis/line"
)

// SheetColumn says in a table of several sheets which one a row is from.
const SheetColumn = "__sheet_name"

// loader makes the table: each sheet is taken as text, then the columns of all
// sheets are put under each other by name. A column whose every value is a
// number becomes one; all else stays text.
type loader struct {
	table    string
	sheets   []sheet
	appender *driverduckdb.Appender
	columns  []string // of the table, in the end
	types    []string
}

type sheet struct {
	name    string
	columns []string
}

// quote makes an identifier of a name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// text makes a literal of a value.
func text(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

func (l *loader) staging(i int) string { return fmt.Sprintf("staging_%d", i) }

func (l *loader) take(conn *driverduckdb.Conn, q line.Request) error {
	switch q.Op {
	case line.Open:
		l.table = q.Name
		return nil
	case line.Sheet:
		return l.open(conn, q)
	}
	if len(l.sheets) == 0 {
		return errors.New("rows without a sheet")
	}
	width := len(l.sheets[len(l.sheets)-1].columns)
	row := make([]driver.Value, width)
	for _, cells := range q.Rows {
		for i := range row {
			if row[i] = nil; i < len(cells) && cells[i] != "" {
				row[i] = cells[i]
			}
		}
		if width == 0 {
			continue
		}
		if err := l.appender.AppendRow(row...); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) open(conn *driverduckdb.Conn, q line.Request) error {
	if err := l.flush(); err != nil {
		return err
	}
	seen := map[string]bool{strings.ToLower(SheetColumn): true}
	var defs []string
	columns := make([]string, len(q.Columns))
	for i, name := range q.Columns {
		unique := name
		for n := 2; seen[strings.ToLower(unique)] || unique == ""; n++ {
			unique = fmt.Sprintf("%s_%d", name, n)
		}
		seen[strings.ToLower(unique)] = true
		columns[i] = unique
		defs = append(defs, quote(unique)+" VARCHAR")
	}
	l.sheets = append(l.sheets, sheet{q.Name, columns})
	if len(columns) == 0 {
		return nil
	}
	name := l.staging(len(l.sheets) - 1)
	if err := exec(conn, "CREATE TABLE "+name+"("+strings.Join(defs, ", ")+")"); err != nil {
		return err
	}
	var err error
	l.appender, err = driverduckdb.NewAppenderFromConn(conn, "", name)
	return err
}

func (l *loader) flush() error {
	if l.appender == nil {
		return nil
	}
	a := l.appender
	l.appender = nil
	return a.Close()
}

// What a number looks like: a leading zero is part of a name (a postcode, an
// article), not of a number.
const (
	integerForm = `-?(0|[1-9][0-9]{0,17})`
	numberForm  = `-?(0|[1-9][0-9]{0,17})([.][0-9]{1,30})?([eE][+-]?[0-9]{1,3})?`
)

// finish makes the one table out of the sheets.
func (l *loader) finish(conn *driverduckdb.Conn) error {
	if err := l.flush(); err != nil {
		return err
	}
	types := map[string]string{} // by name in lower case: BY NAME takes no notice of case
	rank := map[string]int{"": 0, "BIGINT": 1, "DOUBLE": 2, "VARCHAR": 3}
	for i, s := range l.sheets {
		for _, c := range s.columns {
			kind, err := l.kind(conn, i, c)
			if err != nil {
				return err
			}
			key := strings.ToLower(c)
			if rank[kind] > rank[types[key]] {
				types[key] = kind
			}
		}
	}
	var parts []string
	many := len(l.sheets) > 1
	for i, s := range l.sheets {
		var columns []string
		for _, c := range s.columns {
			kind := types[strings.ToLower(c)]
			if kind == "" {
				kind = "VARCHAR" // of a column without a value
			}
			columns = append(columns, fmt.Sprintf("CAST(%s AS %s) AS %s", quote(c), kind, quote(c)))
		}
		if many && len(columns) > 0 {
			columns = append(columns, fmt.Sprintf("%s AS %s", text(s.name), quote(SheetColumn)))
		}
		if len(columns) > 0 {
			parts = append(parts, "SELECT "+strings.Join(columns, ", ")+" FROM "+l.staging(i))
		}
	}
	if len(parts) == 0 {
		return errors.New("the file holds no table")
	}
	if err := exec(conn, "CREATE TABLE "+quote(l.table)+" AS "+strings.Join(parts, " UNION ALL BY NAME ")); err != nil {
		return err
	}
	for i, s := range l.sheets {
		if len(s.columns) > 0 {
			if err := exec(conn, "DROP TABLE "+l.staging(i)); err != nil {
				return err
			}
		}
	}
	rows, err := rowsOf(context.Background(), conn, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name="+text(l.table)+" ORDER BY column_index")
	if err != nil {
		return err
	}
	for _, r := range rows {
		l.columns = append(l.columns, fmt.Sprint(r[0]))
		l.types = append(l.types, fmt.Sprint(r[1]))
	}
	return nil
}

// kind is what all values of a sheet's column are; "" if it has none.
func (l *loader) kind(conn *driverduckdb.Conn, i int, column string) (string, error) {
	c := quote(column)
	rows, err := rowsOf(context.Background(), conn, fmt.Sprintf("SELECT count(%[1]s), count(*) FILTER (regexp_full_match(%[1]s, '%[2]s')), count(*) FILTER (regexp_full_match(%[1]s, '%[3]s')) FROM %[4]s",
		c, integerForm, numberForm, l.staging(i)))
	if err != nil {
		return "", err
	}
	all, whole, number := rows[0][0], rows[0][1], rows[0][2]
	switch {
	case all == int64(0):
		return "", nil
	case all == whole:
		return "BIGINT", nil
	case all == number:
		return "DOUBLE", nil
	}
	return "VARCHAR", nil
}
