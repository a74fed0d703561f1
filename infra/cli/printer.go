package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"refold/domain/run"
)

// printer shows the frames of a run.
type printer struct {
	*env
	client       func() *client // of the server that runs now
	session, run string
	last         string       // id of the newest frame
	heard        atomic.Int64 // when it came, unix milliseconds
	ended        bool
	code         int
	final        bool              // print the answer when it is final, not while it is written
	calls        map[string]string // as they were announced, by their ids
	answer       strings.Builder   // what is written so far, if it is held back
	block        string            // event id of the block being printed
	where        io.Writer
	column       bool // the cursor is not at the start of a line
}

// stopRun asks the server to stop the run; false if that could not be done.
func (p *printer) stopRun(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.client().call(ctx, http.MethodPost, "/api/v1/sessions/"+url.PathEscape(p.session)+"/stop", map[string]string{"message_id": p.run}, nil); err != nil {
		fmt.Fprintln(p.err, "refold: stop the run:", err)
		return false
	}
	return true
}

func (p *printer) frame(f frame) error {
	if f.Type == "" {
		return nil
	}
	if f.id != "" {
		p.last = f.id
	}
	p.heard.Store(time.Now().UnixMilli())
	if f.Type == "agent_query" && p.run == "" {
		p.run = f.text("assistant_message_id")
	}
	if p.cli.JSON {
		p.raw(append(f.raw, '\n'))
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
		switch {
		case f.Data["superseded"] == true:
			p.answer.Reset()
			if !p.final {
				p.note("(that was not the answer: " + f.text("reason") + ")")
			}
		case p.final:
			p.answer.WriteString(f.Content)
		case f.Content != "":
			p.begin(f.text("event_id"), p.out, "")
			p.write(p.out, cited(f.Content))
		}
	case "tool_call":
		if f.Data["arguments"] != nil {
			text := f.text("hint")
			if text == "" {
				text = f.text("tool_name")
			}
			if p.calls == nil {
				p.calls = map[string]string{}
			}
			p.calls[f.text("tool_call_id")] = text
			p.note("→ " + text)
		}
	case "tool_result":
		p.note(fmt.Sprintf("← %s: done (%v ms)", p.call(f), f.Data["duration_ms"]))
	case "error":
		if f.Done {
			p.note("The run failed: " + f.Content)
			p.farewell()
			return
		}
		p.note(fmt.Sprintf("← %s failed: %s", p.call(f), firstLine(f.Content)))
	case "stop":
		p.note("Stopped.")
		p.farewell()
	case "complete":
		p.newline()
		if reason := f.text("end_reason"); reason != "natural" {
			p.note(ending(reason))
		}
		p.farewell()
	}
}

// call is what a call was announced as: of several at a time the results come in
// the order in which they end.
func (p *printer) call(f frame) string {
	return cmp.Or(p.calls[f.text("tool_call_id")], f.text("tool_name"))
}

// ending says what an end means that is not the model's own.
func ending(reason string) string {
	why := map[string]string{
		run.EndLength:        "the model reached the longest reply that it may give, so this may lack its end; ask it to go on with --session",
		run.EndStuck:         "the agent did the same again and again; put the question another way, or name what to look for",
		run.EndContentFilter: "the model's server refused to say more",
		run.EndEmpty:         "the model said nothing; ask again, or another model",
		run.EndModelFailed:   "the model failed; this is what was found until then",
		run.EndDeadline:      "the time for a run was over; --run-timeout gives more",
		run.EndIncomplete:    "the reply broke off; ask it to go on with --session",
		run.EndMaxRounds:     "the agent used up its rounds; this is what it had found, ask it to go on with --session",
	}[reason]
	if why == "" {
		return "(ended: " + reason + ")"
	}
	return "(ended: " + reason + ": " + why + ")"
}

// farewell prints the answer, if it was held back, and where the record is.
func (p *printer) farewell() {
	if p.final && p.answer.Len() > 0 {
		fmt.Fprintln(p.out, strings.TrimRight(cited(p.answer.String()), "\n"))
	}
	fmt.Fprintf(p.err, "\nOn the record: run %s, session %s\n", p.run, p.session)
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
	return p.client().call(context.WithoutCancel(p.ctx), http.MethodPost, "/api/v1/agent/tool-approvals/"+url.PathEscape(id), map[string]string{"decision": decision}, nil)
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
		if r < ' ' && r != '\n' && r != '\t' || steers(r) {
			return '·'
		}
		return r
	}, s)
}

// steers tells whether a character above the space changes how a terminal shows
// others: controls, and those that reorder text, which can make a command look
// like another.
func steers(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escapeControls writes such characters of a line of JSON as escapes.
func escapeControls(line []byte) []byte {
	out := make([]byte, 0, len(line))
	for _, r := range string(line) {
		if steers(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
