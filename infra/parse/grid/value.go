package grid

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"refold/handlers"
)

// shape is what one value looks like.
type shape int

const (
	other   shape = iota
	integer       // 12
	decimal       // 12.5, 1e3
	commas        // 12,5
	grouped       // 1,234
	precise       // 1,234.5
	pointed       // 1.234,5
	date          // 2024-01-02, with or without a time
	slashed       // 2024/1/2, 2024年1月2日
	german        // 02.01.2024
	boolean       // true
	shapes
)

var (
	isInteger = regexp.MustCompile(`^-?(?:0|[1-9]\d{0,17})$`)
	isDecimal = regexp.MustCompile(`^-?(?:(?:0|[1-9]\d{0,17})?\.\d{1,30}|(?:0|[1-9]\d{0,17})(?:\.\d{1,30})?[eE][+-]?\d{1,3})$`)
	isComma   = regexp.MustCompile(`^-?(?:0|[1-9]\d{0,17}),\d{1,30}$`)
	isGrouped = regexp.MustCompile(`^-?[1-9]\d{0,2}(?:,\d{3}){1,5}(?:\.\d{1,30})?$`)
	isPointed = regexp.MustCompile(`^-?[1-9]\d{0,2}(?:\.\d{3}){1,5},\d{1,30}$`)
	isDate    = regexp.MustCompile(`^\d{4}-\d\d?-\d\d?(?:[ T]\d\d?:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$`)
	isSlashed = regexp.MustCompile(`^(\d{4})(?:/(\d\d?)/(\d\d?)|年(\d\d?)月(\d\d?)日)( \d\d?:\d\d(?::\d\d)?)?$`)
	isGerman  = regexp.MustCompile(`^(\d\d?)\.(\d\d?)\.(\d{4})$`)
)

// look tells the shape. comma decides where a number could be either.
func look(s string, comma bool) shape {
	if len(s) > 40 || s == "" {
		return other
	}
	switch c := s[0]; {
	case c == '-' || c == '.' || c >= '0' && c <= '9':
	case c == 't' || c == 'f' || c == 'T' || c == 'F':
		if strings.EqualFold(s, "true") || strings.EqualFold(s, "false") {
			return boolean
		}
		return other
	default:
		return other
	}
	switch {
	case digits(s) || isInteger.MatchString(s):
		return integer
	case isDecimal.MatchString(s):
		return decimal
	case isGrouped.MatchString(s) && !(comma && isComma.MatchString(s)):
		if strings.Contains(s, ".") {
			return precise
		}
		return grouped
	case isComma.MatchString(s):
		return commas
	case isPointed.MatchString(s):
		return pointed
	case isDate.MatchString(s) && real(s[:strings.IndexAny(s+" ", " T")], "2006-1-2"):
		return date
	case isSlashed.MatchString(s) && real(ymd(s), "2006-01-02"):
		return slashed
	case isGerman.MatchString(s) && real(s, "2.1.2006"):
		return german
	}
	return other
}

// digits is the fast way for the most common value.
func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) <= 18 && (s[0] != '0' || len(s) == 1)
}

func real(s, layout string) bool {
	_, err := time.Parse(layout, s)
	return err == nil
}

// ymd writes a date with slashes or 年月日 as ISO does.
func ymd(s string) string {
	m := isSlashed.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	return fmt.Sprintf("%s-%02s-%02s%s", m[1], m[2]+m[4], m[3]+m[5], m[6])
}

// column gathers what the values of a column look like.
type column struct {
	name    string
	comma   bool
	empty   int
	seen    [shapes]int
	samples []string
}

func (c *column) add(v string) {
	if v == "" {
		c.empty++
		return
	}
	c.seen[look(v, c.comma)]++
	if len(c.samples) < maxSamples {
		s := short(v, maxSample)
		for _, old := range c.samples {
			if old == s {
				return
			}
		}
		c.samples = append(c.samples, s)
	}
}

// like tells whether a value fits the column as it is so far.
func (c *column) like(v string) bool {
	s := c.style()
	if s.kind == "text" {
		return true
	}
	one := column{comma: c.comma}
	one.add(v)
	kind := one.style().kind
	return kind == s.kind || kind == "integer" && s.kind == "number" || kind == "number" && s.kind == "integer"
}

// style says of which type a column is, and how its values are brought into one
// form.
type style struct {
	kind string // as handlers.Column
	form shape  // what is rewritten, other = nothing
}

func (c *column) style() style {
	all := 0
	for _, n := range c.seen {
		all += n
	}
	only := func(of ...shape) bool {
		n := 0
		for _, s := range of {
			n += c.seen[s]
		}
		return n == all
	}
	switch {
	case all == 0:
		return style{"text", other}
	case only(integer):
		return style{"integer", other}
	case only(integer, decimal):
		return style{"number", other}
	case only(boolean):
		return style{"boolean", other}
	case only(integer, grouped):
		return style{"integer", grouped}
	case only(integer, decimal, grouped, precise):
		return style{"number", grouped}
	case only(integer, commas, pointed):
		return style{"number", commas}
	case only(date, slashed):
		return style{"date", slashed}
	case only(date, german):
		return style{"date", german}
	}
	return style{"text", other}
}

func (s style) note() string {
	switch s.form {
	case grouped:
		return "commas between thousands are left out"
	case commas:
		return "decimal commas are read as points"
	case german:
		return "dates are read as day.month.year"
	}
	return ""
}

// plain writes a value in the one form of its column.
func (s style) plain(v string) string {
	switch s.form {
	case grouped:
		return strings.ReplaceAll(v, ",", "")
	case commas:
		return strings.Replace(strings.ReplaceAll(v, ".", ""), ",", ".", 1)
	case slashed:
		if v != "" && look(v, false) == slashed {
			return ymd(v)
		}
	case german:
		if m := isGerman.FindStringSubmatch(v); m != nil {
			return fmt.Sprintf("%s-%02s-%02s", m[3], m[2], m[1])
		}
	}
	return v
}

func (c *column) describe(s style) handlers.Column {
	out := handlers.Column{Name: c.name, Type: s.kind, Empty: c.empty}
	for _, v := range c.samples {
		out.Samples = append(out.Samples, s.plain(v))
	}
	return out
}

// allNumbers tells a row of data from a header: nothing in it is a name.
func allNumbers(cells []string) bool {
	n := 0
	for _, v := range cells {
		if v == "" {
			continue
		}
		switch look(v, false) {
		case other, boolean:
			return false
		}
		n++
	}
	return n > 0
}
