package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
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

Exit codes: 0 answered, 3 failed, 4 stopped or no real answer, 130 stopped by Ctrl-C.

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
	cl, closeServer, err := e.connect(c)
	if err != nil {
		return err
	}
	err = a.converse(e, cl, question, dir)
	return errors.Join(err, closeServer())
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

func (a Ask) converse(e *env, cl *client, question, dir string) error {
	// The requests outlive the first interrupt: it stops the run, and the rest of
	// the stream says how it ended.
	ctx := context.WithoutCancel(e.ctx)
	session := a.Session
	if session == "" {
		var s struct {
			ID string `json:"id"`
		}
		title := []rune(question)
		if len(title) > 60 {
			title = title[:60]
		}
		if err := cl.call(ctx, http.MethodPost, "/api/v1/sessions", map[string]string{"title": string(title)}, &s); err != nil {
			return err
		}
		session = s.ID
	}
	res, err := cl.request(ctx, http.MethodPost, "/api/v1/agent-chat/"+url.PathEscape(session), map[string]any{
		"query": question, "agent_id": a.Agent, "agent_enabled": true, "workspace": dir, "channel": "cli"})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	p := &printer{env: e, client: cl, session: session, run: res.Header.Get("X-Refold-Run")}
	interrupted := make(chan struct{})
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-e.ctx.Done():
			e.stop()
			close(interrupted)
			p.stopRun(ctx)
		case <-finished:
		}
	}()
	if err := readFrames(res.Body, p.frame); err != nil {
		return fmt.Errorf("the stream broke off: %w; the run goes on where the server runs: refold replay %s", err, p.run)
	}
	if !p.ended {
		return fmt.Errorf("the stream ended before the run did; see: refold replay %s", p.run)
	}
	e.exit = p.code
	select {
	case <-interrupted:
		e.exit = ExitStopped
	default:
	}
	return nil
}

// printer shows the frames of a run.
type printer struct {
	*env
	client       *client
	session, run string
	ended        bool
	code         int
	block        string // event id of the block being printed
	where        io.Writer
	column       bool // the cursor is not at the start of a line
}

func (p *printer) stopRun(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.client.call(ctx, http.MethodPost, "/api/v1/sessions/"+url.PathEscape(p.session)+"/stop", map[string]string{"message_id": p.run}, nil); err != nil {
		fmt.Fprintln(p.err, "refold: stop the run:", err)
	}
}

func (p *printer) frame(f frame) error {
	if f.Type == "" {
		return nil
	}
	if f.Type == "agent_query" && p.run == "" {
		p.run = f.text("assistant_message_id")
	}
	if p.cli.JSON {
		p.out.Write(append(f.raw, '\n'))
	} else {
		p.show(f)
	}
	if f.terminal() {
		p.ended = true
		p.code = exitOf(f)
	}
	if f.Type == "tool_approval_required" {
		return p.approval(f)
	}
	return nil
}

func exitOf(f frame) int {
	switch {
	case f.Type == "stop":
		return ExitPartial
	case f.Type == "error":
		return ExitFailed
	case f.text("end_reason") != "natural":
		return ExitPartial
	}
	return ExitOK
}

// show prints a frame for a person: answer text to standard output, everything
// else to standard error.
func (p *printer) show(f frame) {
	switch f.Type {
	case "thinking":
		if f.Content != "" {
			p.begin(f.text("event_id"), p.err, "· ")
			p.write(p.err, f.Content)
		}
	case "answer":
		if f.Data["superseded"] == true {
			p.note("(that was not the answer: " + f.text("reason") + ")")
			return
		}
		if f.Content != "" {
			p.begin(f.text("event_id"), p.out, "")
			p.write(p.out, f.Content)
		}
	case "tool_call":
		if f.Data["arguments"] != nil {
			text := f.text("hint")
			if text == "" {
				text = f.text("tool_name")
			}
			p.note("→ " + text)
		}
	case "tool_result":
		p.note(fmt.Sprintf("← %s: done (%v ms)", f.text("tool_name"), f.Data["duration_ms"]))
	case "error":
		if f.Done {
			p.note("The run failed: " + f.Content)
			return
		}
		p.note(fmt.Sprintf("← %s failed: %s", f.text("tool_name"), firstLine(f.Content)))
	case "stop":
		p.note("Stopped.")
	case "complete":
		p.newline()
		if reason := f.text("end_reason"); reason != "natural" {
			p.note("(ended: " + reason + ")")
		}
		fmt.Fprintf(p.err, "\nOn the record: run %s, session %s\n", p.run, p.session)
	}
}

// approval asks a person at the terminal, or says how to answer elsewhere.
func (p *printer) approval(f frame) error {
	id := f.text("pending_id")
	p.note("? " + f.Content + "\n  " + f.text("args_json"))
	if !terminal(p.in) || p.cli.JSON {
		p.note("  answer with: refold approvals approve " + id + "   or: refold approvals reject " + id)
		return nil
	}
	fmt.Fprint(p.err, "  Approve? [y/N] ")
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	decision := "reject"
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		decision = "approve"
	}
	return p.client.call(context.WithoutCancel(p.ctx), http.MethodPost, "/api/v1/agent/tool-approvals/"+url.PathEscape(id), map[string]string{"decision": decision}, nil)
}

func (p *printer) begin(block string, w io.Writer, mark string) {
	if p.block == block && p.where == w {
		return
	}
	p.newline()
	p.block, p.where = block, w
	if mark != "" {
		p.write(w, mark)
	}
}

func (p *printer) write(w io.Writer, text string) {
	if terminal(w) {
		text = plainText(text)
	}
	fmt.Fprint(w, text)
	p.column = !strings.HasSuffix(text, "\n")
}

func (p *printer) newline() {
	if p.column {
		fmt.Fprintln(p.where)
		p.column = false
	}
}

func (p *printer) note(text string) {
	p.newline()
	p.block = ""
	fmt.Fprintln(p.err, plainText(text))
}

// plainText shows control characters instead of obeying them: text of models
// and documents must not steer the terminal.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
