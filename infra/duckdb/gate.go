//go:build cgo

package duckdb

import (
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// gate is an engine without data that says how many statements a text holds.
// The driver runs all but the last as it prepares a text, so that must be known
// before.
type gate struct{ conn mapping.Connection }

func newGate() (*gate, error) {
	var config mapping.Config
	if mapping.CreateConfig(&config) == mapping.StateError {
		return nil, errors.New("configure the parser")
	}
	defer mapping.DestroyConfig(&config)
	for name, value := range map[string]string{"enable_external_access": "false", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
		"threads": "1", "memory_limit": "64MB", "lock_configuration": "true"} {
		if mapping.SetConfig(config, name, value) == mapping.StateError {
			return nil, fmt.Errorf("configure the parser: %s", name)
		}
	}
	var db mapping.Database
	var problem string
	if mapping.OpenExt(":memory:", &db, config, &problem) == mapping.StateError {
		return nil, fmt.Errorf("open the parser: %s", problem)
	}
	g := &gate{}
	if mapping.Connect(db, &g.conn) == mapping.StateError {
		return nil, errors.New("connect to the parser")
	}
	return g, nil
}

// count says how many statements there are, or what is wrong with the text.
func (g *gate) count(sql string) (int, error) {
	var statements mapping.ExtractedStatements
	n := mapping.ExtractStatements(g.conn, sql, &statements)
	defer mapping.DestroyExtracted(&statements)
	if n == 0 {
		if text := mapping.ExtractStatementsError(statements); text != "" {
			return 0, errors.New(text)
		}
	}
	return int(n), nil
}
