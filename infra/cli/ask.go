package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"refold/domain/event"
	"refold/domain/session"
	"refold/domain/tenant"
)

// Ask asks a question.
type Ask struct {
	Question []string `arg:"" help:"The question; - reads it from standard input."`
	Dir      string   `help:"Folder of files to answer from; that of the session's last question, unless named." placeholder:"DIR" type:"existingdir"`
	KB       []string `help:"Knowledge base to answer from, by name or id; repeatable." placeholder:"NAME" name:"kb"`
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
  refold ask --kb Handbook "When are refunds paid?"
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
	if dir != "" {
		if err := readable(dir); err != nil {
			return usage("--dir: the folder can't be read: %v", err)
		}
	}
	c.Own = true
	l, err := e.connect(c)
	if err != nil {
		return err
	}
	if dir == "" && a.Session != "" {
		if dir, err = e.lastDir(l, a.Session); err != nil {
			return errors.Join(err, l.close())
		}
	}
	bases := []string{}
	for _, name := range a.KB {
		b, err := e.findBase(l.client, name)
		if err != nil {
			return errors.Join(err, l.close())
		}
		bases = append(bases, b.ID)
	}
	switch {
	case l.command != nil:
		fmt.Fprintln(e.err, "Note: another command line has this record open, and answers this question too, with its own models.")
	case l.app == nil && a.ModelFlags.given():
		fmt.Fprintln(e.err, "Note: a server runs on this record and answers with its own models; the model flags and variables here have no effect.")
	}
	t := &talk{env: e, ask: a, config: c, link: l, bases: bases}
	return t.hold(question, dir)
}

// readable is an error if a folder can't be listed.
func readable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// lastDir is the folder of a session's last question that had one, "" if none
// had. A folder that is gone is said, not asked for.
func (e *env) lastDir(l *link, sessionID string) (string, error) {
	dir := ""
	reading := e.reading
	if l.app != nil {
		reading = func(f func(event.Store) error) error { return f(l.app.Store) }
	}
	err := reading(func(s event.Store) error {
		log := event.Log[session.Event]{Store: s, Codec: session.Codec, Category: session.Category}
		recs, err := log.Load(e.ctx, tenant.Name(e.cli.Tenant), sessionID, 0)
		for _, rec := range recs {
			if m, ok := rec.Event.(session.MessagePosted); ok && m.Workspace != "" {
				dir = m.Workspace
			}
		}
		return err
	})
	if errors.Is(err, event.ErrInvalid) {
		return "", nil // no id of a session: the question will be told
	}
	if err != nil || dir == "" {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		fmt.Fprintf(e.err, "Note: the folder of this session, %s, is not there any more; answering without files. --dir names another.\n", plainText(dir))
		return "", nil
	}
	return dir, nil
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
