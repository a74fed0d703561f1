package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Ask asks a question.
type Ask struct {
	Question []string `arg:"" help:"The question; - reads it from standard input."`
	Dir      string   `help:"Folder of files to answer from." placeholder:"DIR" type:"existingdir"`
	Session  string   `help:"Go on with this session." placeholder:"ID"`
	Agent    string   `help:"Agent to ask." default:"builtin-smart-reasoning" placeholder:"ID"`
	ModelFlags
}

// Help gives examples.
func (Ask) Help() string {
	return `The thinking and the tool calls go to standard error, the answer to standard output.
Ctrl-C stops the run; what it has found stays on the record.

Exit codes: 0 answered, 3 failed, 4 stopped, cut off or no answer of the model's own, 130 stopped by Ctrl-C.

Examples:
  refold ask --dir ./docs "How do I restore a backup?"
  refold ask --json "Which sessions are there?" | jq .
  git diff | refold ask "Review this change: $(cat)"`
}

// Run asks and prints what happens until the run ends.
func (a Ask) Run(e *env) error {
	question, err := a.question(e.in)
	if err != nil {
		return err
	}
	c := e.config
	if err := a.apply(&c); err != nil {
		return usage("%v", err)
	}
	dir := ""
	if a.Dir != "" {
		if dir, err = filepath.Abs(a.Dir); err != nil {
			return err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return err
		}
	}
	c.Own = true
	l, err := e.connect(c)
	if err != nil {
		return err
	}
	if l.app == nil && a.ModelFlags.given() {
		fmt.Fprintln(e.err, "Note: a server runs on this record and answers with its own models; the model flags and variables here have no effect.")
	}
	t := &talk{env: e, ask: a, config: c, link: l}
	return t.hold(question, dir)
}

func (a Ask) question(in io.Reader) (string, error) {
	q := strings.Join(a.Question, " ")
	if q == "-" {
		raw, err := io.ReadAll(io.LimitReader(in, 1<<20))
		if err != nil {
			return "", fmt.Errorf("read the question: %w", err)
		}
		q = string(raw)
	}
	if strings.TrimSpace(q) == "" {
		return "", usage("the question is empty")
	}
	return q, nil
}
