package viewquery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// functions are those that a query may call: they read nothing, and what they
// make is no larger than what they get.
var functions = strings.Fields(`abs avg ceil ceiling coalesce count date datetime dense_rank floor glob group_concat ifnull iif if instr julianday lag
lead length like lower ltrim max min mod nullif octet_length rank replace round row_number rtrim sign strftime string_agg substr substring sum time timediff
total trim typeof unicode unixepoch upper first_value last_value ntile percent_rank`)

// authorize is the engine's own question, for everything that a statement would
// do, before it can be run.
func (q *query) authorize(action sqlite3.AuthorizerActionCode, name3, name4, _, _ string) sqlite3.AuthorizerReturnCode {
	deny := func(format string, args ...any) sqlite3.AuthorizerReturnCode {
		if q.denied == "" {
			q.denied = fmt.Sprintf(format, args...)
		}
		return sqlite3.AUTH_DENY
	}
	switch action {
	case sqlite3.AUTH_SELECT:
		return sqlite3.AUTH_OK
	case sqlite3.AUTH_READ:
		// Without a column it is a name in FROM of which nothing is read: a table to be
		// counted, or the name of a WITH, which is nowhere else.
		if slices.ContainsFunc(tables, func(t table) bool { return t.name == strings.ToLower(name3) }) || name4 == "" && !inner(name3) {
			return sqlite3.AUTH_OK
		}
		return deny("The table %.60q cannot be read. There are %s.", name3, schema())
	case sqlite3.AUTH_FUNCTION:
		if slices.Contains(functions, strings.ToLower(name4)) {
			return sqlite3.AUTH_OK
		}
		return deny("The function %.60q cannot be used here. There are %s.", name4, strings.Join(functions, ", "))
	case sqlite3.AUTH_RECURSIVE:
		return deny("WITH RECURSIVE cannot be used here.")
	case sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE:
		return deny("Only SELECT can be run here; nothing can be changed.")
	}
	return deny("Only SELECT can be run here.")
}

// inner tells names that the engine itself gives tables.
func inner(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "sqlite") || strings.HasPrefix(name, "pragma_") || strings.HasPrefix(name, "json") || strings.HasPrefix(name, "dbstat")
}
