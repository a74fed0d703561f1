package tool

import (
	"encoding/json"
	"regexp"
	"strings"
)

// What a risky call may destroy, as Risky names it.
const (
	RiskDelete    = "deletes files recursively"
	RiskDrop      = "drops a table"
	RiskTruncate  = "empties a table"
	RiskForcePush = "overwrites pushed history (git push --force)"
	RiskHardReset = "throws local work away (git reset --hard)"
)

// A command word begins a text or follows something that ends a shell word; it
// is never the middle of a longer name. Within one command only its own
// arguments count, so nothing is matched across ; | & and line ends.
const (
	word = `(?i)(?:^|[\s;&|(){}\x60"'$/\\=])`
	args = `(?:[ \t]+[^\s;&|]+)*?[ \t]+`
	stop = `(?:$|[\s;&|)"'\x60])`
	id   = `[\p{L}_"\x60\[][\p{L}\p{N}_$."\x60\]]*`
)

var (
	continued = strings.NewReplacer("\\\n", " ", "\x60\n", " ")
	comment   = regexp.MustCompile(`(?s:/\*.*?\*/)|(?m:--[ \t].*$)`)
	risks     = []struct {
		reason  string
		pattern *regexp.Regexp
	}{
		{RiskDelete, regexp.MustCompile(word + `rm(?:\.exe)?` + args + `["']?(?:-[a-z]*r[a-z]*|--recursive)` + stop)},
		{RiskDelete, regexp.MustCompile(word + `find` + args + `-delete` + stop)},
		{RiskDelete, regexp.MustCompile(word + `(?:rmdir|rd|del|erase)` + args + `/s` + stop)},
		{RiskDelete, regexp.MustCompile(word + `(?:remove-item|ri|rm|del|rmdir)` + args + `-rec[a-z]*` + stop)},
		{RiskDelete, regexp.MustCompile(`\b(?:shutil\s*\.\s*rmtree|os\s*\.\s*RemoveAll|rmtree)\s*\(`)},
		{RiskDelete, regexp.MustCompile(word + `rimraf` + stop)},
		{RiskDrop, regexp.MustCompile(`(?i)\bdrop\s+(?:(?:foreign|external|temporary|temp)\s+)?(?:table|database|schema)\s+(?:if\s+exists\s+)?` + id)},
		{RiskTruncate, regexp.MustCompile(`(?i)\btruncate\s+table\s+` + id)},
		{RiskTruncate, regexp.MustCompile(`(?i)(?:^|[;("'\x60])\s*truncate\s+(?:only\s+)?` + id + `(?:\s*,\s*` + id + `)*\s*(?:$|[;)"'\x60]|(?:restart|continue|cascade|restrict)\b)`)},
		{RiskForcePush, regexp.MustCompile(word + `git(?:\.exe)?` + args + `push` + args + `(?:-[a-z]*f[a-z]*|--force(?:-with-lease|-if-includes)?(?:=\S*)?|--mirror|\+[^\s;&|]+)` + stop)},
		{RiskHardReset, regexp.MustCompile(word + `git(?:\.exe)?` + args + `reset` + args + `--hard` + stop)},
	}
)

// Risky tells whether the arguments of a call hold a command that destroys:
// recursive delete, DROP TABLE, TRUNCATE, git push --force, git reset --hard.
// Case, spacing, SQL comments and continued lines do not hide it; words in
// identifiers (drop_table, truncate_text) do not count. Every text in args is
// searched, and lists of texts also as one command line. It is for tools that
// are not ReadOnly, and it is a reason to ask a person, never a barrier: a
// sandbox is the barrier.
func Risky(arguments json.RawMessage) (reason string, ok bool) {
	var v any
	if json.Unmarshal(arguments, &v) != nil {
		v = string(arguments)
	}
	var all []string
	for _, text := range texts(v, nil) {
		text = continued.Replace(Reveal(text))
		all = append(all, text)
		if plain := comment.ReplaceAllString(text, " "); plain != text {
			all = append(all, plain)
		}
	}
	for _, r := range risks {
		for _, text := range all {
			if r.pattern.MatchString(text) {
				return r.reason, true
			}
		}
	}
	return "", false
}

func texts(v any, to []string) []string {
	switch v := v.(type) {
	case string:
		to = append(to, v)
	case []any:
		var line []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				line = append(line, s)
			}
			to = texts(item, to)
		}
		if len(line) > 1 {
			to = append(to, strings.Join(line, " "))
		}
	case map[string]any:
		// A command and its list of arguments are often two properties.
		command, _ := v["command"].(string)
		for _, item := range v {
			to = texts(item, to)
			if list, ok := item.([]any); ok && command != "" {
				to = texts(append([]any{command}, list...), to)
			}
		}
	}
	return to
}
