package analysis

import (
	"regexp"
	"strings"
	"unicode"

	"refold/domain/tool"
)

// part is a piece of a statement: code, or something quoted with its quotes.
type part struct {
	text  string
	quote byte // 0 = code, ' = a value, " or ` = a name, - = a comment
}

// parts cuts a statement where quotes and comments begin and end. It is for
// mending names only: what may be run is for the engine to say.
func parts(sql string) []part {
	var out []part
	code := 0
	add := func(from, to int, quote byte) {
		if from > code {
			out = append(out, part{sql[code:from], 0})
		}
		out = append(out, part{sql[from:to], quote})
		code = to
	}
	for i := 0; i < len(sql); {
		switch c := sql[i]; {
		case c == '\'' || c == '"' || c == '`':
			j := i + 1
			for j < len(sql) {
				if sql[j] == c {
					if j+1 < len(sql) && sql[j+1] == c {
						j += 2
						continue
					}
					break
				}
				j++
			}
			j = min(j+1, len(sql))
			add(i, j, c)
			i = j
		case strings.HasPrefix(sql[i:], "--"):
			j := strings.IndexByte(sql[i:], '\n')
			if j < 0 {
				j = len(sql) - i
			}
			add(i, i+j, '-')
			i += j
		case strings.HasPrefix(sql[i:], "/*"):
			j := strings.Index(sql[i+2:], "*/")
			if j < 0 {
				j = len(sql) - i - 4
			}
			add(i, i+j+4, '-')
			i += j + 4
		default:
			i++
		}
	}
	if code < len(sql) {
		out = append(out, part{sql[code:], 0})
	}
	return out
}

var afterFrom = regexp.MustCompile(`(?i)\b(from|join|describe|summarize|show)\s+$`)

// nameTable puts the table's name where a model wrote the document's id: bare,
// as a name, or as a value where only a table can stand.
func nameTable(sql, document, table string) string {
	if document == "" || !strings.Contains(strings.ToLower(sql), strings.ToLower(document)) {
		return sql
	}
	bare := regexp.MustCompile(`(?i)(^|[^\w-])` + regexp.QuoteMeta(document) + `($|[^\w-])`)
	var b strings.Builder
	before := ""
	for _, p := range parts(sql) {
		inner := strings.Trim(p.text, "'\"`")
		switch {
		case p.quote == 0:
			p.text = bare.ReplaceAllString(p.text, "${1}"+table+"${2}")
		case (p.quote == '"' || p.quote == '`' || p.quote == '\'' && afterFrom.MatchString(before)) && strings.EqualFold(inner, document):
			p.text = `"` + table + `"`
		}
		b.WriteString(p.text)
		before = p.text
	}
	return b.String()
}

// mendColumns corrects quoted names that are a column's but for case and white
// space, and names in backticks. A name that fits two columns stays.
func mendColumns(sql string, columns []string) string {
	known := map[string][]string{}
	for _, c := range columns {
		known[loose(c)] = append(known[loose(c)], c)
	}
	var b strings.Builder
	for _, p := range parts(sql) {
		if p.quote == '"' || p.quote == '`' {
			q := string(p.quote)
			name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(p.text, q), q), q+q, q)
			if fits := known[loose(name)]; len(fits) == 1 {
				name = fits[0]
			}
			p.text = quoteName(name)
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// loose is a name without case, white space (the ideographic one too) and what
// cannot be seen.
func loose(name string) string {
	return strings.ToLower(strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || c == 0x3000 || c == 0xFEFF || unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, name))
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteAll(names []string) []string {
	const most = 100
	out := []string{}
	for i, n := range names {
		if i == most {
			return append(out, "...")
		}
		out = append(out, quoteName(n))
	}
	return out
}

var missing = regexp.MustCompile(`(?:column|named|name) "([^"]+)"`)

// hint names columns that are like one that is not there.
func hint(message string, columns []string) string {
	m := missing.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	near := tool.Nearest(m[1], columns)
	for _, c := range columns {
		if loose(c) == loose(m[1]) && len(near) == 0 {
			near = append(near, c)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return "\nDid you mean " + strings.Join(quoteAll(near), " or ") + "?"
}
