package tools

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	maxPattern = 500  // bytes
	maxProgram = 4000 // instructions: the cost of a match is at most this per byte
)

// compile makes a case-insensitive matcher of a model's pattern. Errors are for
// the model.
func compile(pattern string) (*regexp.Regexp, error) {
	if strings.TrimSpace(pattern) == "" {
		return nil, errors.New("The pattern is empty: give the text or regular expression to look for.")
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("The pattern has %d bytes, at most %d are taken: look for a shorter, telling part.", len(pattern), maxPattern)
	}
	source := "(?i)" + pattern
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, errors.New(faultOf(pattern, err))
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil || len(prog.Inst) > maxProgram {
		return nil, errors.New("The pattern is too costly: use fewer or smaller repeat counts.")
	}
	return regexp.Compile(source)
}

func faultOf(pattern string, err error) string {
	literal := fmt.Sprintf(" To look for the text itself, escape it: %s", regexp.QuoteMeta(pattern))
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return "The pattern is not a valid regular expression." + literal
	}
	switch bad.Code {
	case syntax.ErrInvalidRepeatSize, syntax.ErrLarge, syntax.ErrNestingDepth:
		return "The pattern repeats too much: repeat counts may be 1000 at most, nested ones multiplied."
	case syntax.ErrInvalidPerlOp:
		return fmt.Sprintf("The pattern uses %s, which this search does not know: there is no look-ahead, look-behind or back-reference. Match the text itself, or search twice.", bad.Expr)
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		return "The pattern has a parenthesis without its partner." + literal
	case syntax.ErrMissingBracket, syntax.ErrInvalidCharRange, syntax.ErrInvalidCharClass:
		return "The pattern has a character class in [ ] that is not complete or not valid." + literal
	case syntax.ErrMissingRepeatArgument, syntax.ErrInvalidRepeatOp:
		return fmt.Sprintf("In the pattern, %s has nothing to repeat.", bad.Expr) + literal
	case syntax.ErrTrailingBackslash:
		return "The pattern ends in a single backslash." + literal
	case syntax.ErrInvalidEscape:
		return fmt.Sprintf("The pattern has the escape %s, which this search does not know.", bad.Expr) + literal
	}
	return "The pattern is not a valid regular expression." + literal
}

// compileGlob makes a matcher of paths: * and ? stay within a name, ** crosses
// directories, {a,b} and [a-z] choose. Without a slash the glob is for the name
// alone. nil for "".
func compileGlob(glob string) (*regexp.Regexp, error) {
	glob = strings.TrimPrefix(strings.TrimSpace(glob), "./")
	if glob == "" {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(glob, "/") {
		b.WriteString("(?:.*/)?")
	}
	bad := fmt.Errorf("The glob %q is not valid: use forms such as *.go, docs/**/*.md or {a,b}.txt.", glob)
	open := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(glob[i:], "**/"):
				b.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(glob[i:], "**"):
				b.WriteString(".*")
				i++
			default:
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '{':
			open++
			b.WriteString("(?:")
		case '}':
			if open--; open < 0 {
				return nil, bad
			}
			b.WriteString(")")
		case ',':
			if open > 0 {
				b.WriteString("|")
			} else {
				b.WriteString(",")
			}
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				return nil, bad
			}
			class := glob[i+1 : i+1+end]
			if class[0] == '!' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString("$")
	re, err := regexp.Compile("(?s)" + b.String())
	if err != nil || open != 0 {
		return nil, bad
	}
	return re, nil
}
