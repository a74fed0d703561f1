package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"refold/domain/tool"
)

// world is what the tools touch.
type world struct{ ledger, gate string }

// pause tells the gate where a tool stands and goes on when it answers: the
// place at which a test kills the process.
func (w world) pause(ctx context.Context, at, what string) error {
	if w.gate == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", w.gate)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintf(conn, "%s %s\n", at, what); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// write appends a line so that it is on the disk before the tool answers.
func (w world) write(ctx context.Context, line string) error {
	if err := w.pause(ctx, "before", line); err != nil {
		return err
	}
	f, err := os.OpenFile(w.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return w.pause(ctx, "after", line)
}

// ledgerAppend changes the world each time it runs.
type ledgerAppend struct{ world }

func (ledgerAppend) Definition() tool.Definition {
	return tool.Definition{Name: "ledger_append", Description: "Append a line to the ledger.", Effect: tool.SideEffect,
		Schema: json.RawMessage(`{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]}`)}
}

func (t ledgerAppend) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct{ Line string }
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Result{}, err
	}
	if err := t.write(ctx, in.Line); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: "appended " + in.Line}, nil
}

// mailSend needs a person; what it sends is its arguments, as they reach it.
type mailSend struct{ world }

func (mailSend) Definition() tool.Definition {
	return tool.Definition{Name: "mail_send", Description: "Send a mail.", Effect: tool.SideEffect, Approval: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"}},"required":["to"]}`)}
}

func (t mailSend) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := t.write(ctx, string(c.Arguments)); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: "sent"}, nil
}

// look changes nothing.
type look struct{ world }

func (look) Definition() tool.Definition {
	return tool.Definition{Name: "look", Description: "Look at a thing.", Effect: tool.ReadOnly,
		Schema: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}`)}
}

func (t look) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct{ At string }
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Result{}, err
	}
	switch in.At {
	case "panic":
		panic("secret-of-the-tool")
	case "fail":
		return tool.Failed("nothing is to be seen there"), nil
	}
	if err := t.pause(ctx, "look", in.At); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: "saw " + in.At}, nil
}

// flood answers with more than anybody wants to read: numbered lines.
type flood struct{}

func (flood) Definition() tool.Definition {
	return tool.Definition{Name: "flood", Description: "Say very much.", Effect: tool.ReadOnly,
		Schema: json.RawMessage(`{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}`)}
}

func (flood) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	var in struct{ Bytes int }
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Result{}, err
	}
	out := make([]byte, 0, in.Bytes+32)
	for n := 0; len(out) < in.Bytes; n++ {
		out = fmt.Appendf(out, "line %09d of the flood\n", n)
	}
	return tool.Result{Output: string(out[:in.Bytes])}, nil
}
