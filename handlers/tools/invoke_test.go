package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/domain/tool"
)

// fake is a tool made of a function.
type fake struct {
	def tool.Definition
	run func(context.Context, tool.Call) (tool.Result, error)
}

func (f fake) Definition() tool.Definition { return f.def }
func (f fake) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	return f.run(ctx, c)
}

func making(name string, run func(context.Context, tool.Call) (tool.Result, error)) fake {
	return fake{tool.Definition{Name: name, Effect: tool.ReadOnly, Schema: json.RawMessage(
		`{"type":"object","required":["q"],"properties":{"q":{"type":"string"},"n":{"type":"integer"}}}`)}, run}
}

// required is a validator that knows one keyword.
type required struct{}

func (required) Validate(schema, args json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	have := map[string]json.RawMessage{}
	_ = json.Unmarshal(schema, &s)
	_ = json.Unmarshal(args, &have)
	var problems []string
	for _, name := range s.Required {
		if v, ok := have[name]; !ok || string(v) == "null" {
			problems = append(problems, name+": is required")
		}
	}
	return problems
}

func invoker(t *testing.T, tools ...tool.Tool) *Invoker {
	t.Helper()
	var r tool.Registry
	for _, x := range tools {
		if err := r.Register(x); err != nil {
			t.Fatal(err)
		}
	}
	return &Invoker{Registry: &r, Validator: required{}, Log: slog.New(slog.DiscardHandler)}
}

func ask(name, args string) Request {
	return Request{Name: name, Call: tool.Call{ID: "c1", Run: "r1", Attempt: 1, Arguments: json.RawMessage(args)}}
}

// failed checks that an outcome failed with a text and one hint at its end.
func failed(t *testing.T, o Outcome, text string) {
	t.Helper()
	e := o.Result.Error
	if !strings.Contains(e, text) || strings.Count(e, tool.ErrorHint) != 1 || !strings.HasSuffix(e, tool.ErrorHint) {
		t.Errorf("error %q, want %q and one hint", e, text)
	}
}

func TestInvokePassesCastArguments(t *testing.T) {
	var got string
	i := invoker(t, making("echo", func(_ context.Context, c tool.Call) (tool.Result, error) {
		got = string(c.Arguments)
		return tool.Result{Output: "o\x00k\xff", Data: json.RawMessage(`{"s":"\u0000"}`)}, nil
	}))
	o := i.Invoke(context.Background(), ask("\n echo \n", `{"q":9007199254740993,"n":"9007199254740993"}`))
	if got != `{"q":"9007199254740993","n":9007199254740993}` {
		t.Errorf("arguments %s", got)
	}
	if o.Result.Error != "" || o.Result.Output != "o␀k\uFFFD" || o.Full != o.Result.Output || string(o.Result.Data) != `{"s":"\u2400"}` || !o.Ran || o.Truncated {
		t.Errorf("%+v", o)
	}
}

func TestInvokeRefusesBeforeRunning(t *testing.T) {
	i := invoker(t, making("echo", func(context.Context, tool.Call) (tool.Result, error) {
		t.Error("the tool ran")
		return tool.Result{}, nil
	}), making("other", nil))
	_, malformed := tool.ParseArguments(`{"q":"cut`)
	bad := ask("echo", "")
	bad.Malformed = malformed
	for _, c := range []struct {
		req  Request
		want string
	}{
		{ask("ecoh", `{}`), `no tool named "ecoh". Tools with similar names: echo.`},
		{ask("zzzzzzz", `{}`), `Available tools: echo, other.`},
		{ask("echo", ``), "Parameter validation failed: q: is required"},
		{ask("echo", `{"q":null}`), "Parameter validation failed: q: is required"},
		{ask("echo", `[]`), "Parameter validation failed: "},
		{ask("echo", `{"q":"a","Q":"b"}`), "Parameter validation failed: q is given twice"},
		{bad, "never closed"},
	} {
		o := i.Invoke(context.Background(), c.req)
		failed(t, o, c.want)
		if o.Ran {
			t.Errorf("%s: ran", c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	failed(t, i.Invoke(ctx, ask("echo", `{"q":"a"}`)), "stopped before it was finished")
}

func TestInvokeResults(t *testing.T) {
	for name, c := range map[string]struct {
		result tool.Result
		err    error
		want   string
	}{
		"none":     {tool.Result{}, nil, "no result"},
		"error":    {tool.Result{Output: "part"}, errors.New("disk full"), "disk full"},
		"failed":   {tool.Failed("bad city"), nil, "bad city"},
		"both":     {tool.Failed("first"), errors.New("second"), "first\nsecond"},
		"hinted":   {tool.Failed("x\n" + tool.ErrorHint), nil, "x\n"},
		"list":     {tool.Result{Output: "o", Data: json.RawMessage(`[1]`)}, nil, "no valid result"},
		"broken":   {tool.Result{Output: "o", Data: json.RawMessage(`{`)}, nil, "no valid result"},
		"enormous": {tool.Failed(strings.Repeat("e", 100000)), nil, "output truncated"},
	} {
		i := invoker(t, making("x", func(context.Context, tool.Call) (tool.Result, error) { return c.result, c.err }))
		o := i.Invoke(context.Background(), ask("x", `{"q":"a"}`))
		failed(t, o, c.want)
		if o.Result.Output != c.result.Output || len(o.Result.Error) > 5000 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestInvokeTruncates(t *testing.T) {
	long := strings.Repeat("中", 20000)
	x := making("x", func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: long}, nil })
	own := x
	own.def.Name, own.def.MaxOutput = "own", 18000
	i := invoker(t, x, own)
	for _, c := range []struct {
		name       string
		agent, max int
	}{{"x", 0, tool.DefaultOutput}, {"x", 1000, 1000}, {"own", 1000, 18000}, {"own", 19000, 19000}} {
		req := ask(c.name, `{"q":"a"}`)
		req.MaxOutput = c.agent
		o := i.Invoke(context.Background(), req)
		if n := len([]rune(o.Result.Output)); !o.Truncated || o.Full != long || n > c.max || n < c.max-200 {
			t.Errorf("%+v: %d runes", c, n)
		}
	}
}

func TestInvokeGivesUpOnDeafTool(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	deaf := making("deaf", func(context.Context, tool.Call) (tool.Result, error) {
		<-release
		return tool.Result{Output: "late"}, nil
	})
	obeys := making("obeys", func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, fmt.Errorf("call: %w", ctx.Err())
	})
	deaf.def.Timeout, obeys.def.Timeout = time.Nanosecond, time.Nanosecond
	slow := making("slow", func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{Output: "part"}, nil
	})
	i := invoker(t, deaf, obeys, slow)
	i.Grace = time.Nanosecond
	// A deadline that has passed before the start runs nothing.
	failed(t, i.Invoke(context.Background(), ask("deaf", `{"q":"a"}`)), "did not finish in time")
	ctx, cancel := context.WithCancel(context.Background())
	started := making("started", func(context.Context, tool.Call) (tool.Result, error) { cancel(); <-release; return tool.Result{}, nil })
	if err := i.Registry.Register(started); err != nil {
		t.Fatal(err)
	}
	o := i.Invoke(ctx, ask("started", `{"q":"a"}`))
	failed(t, o, "is not known")
	if !o.Abandoned || !o.Ran {
		t.Errorf("%+v", o)
	}
	i.Grace = time.Hour
	ctx, cancel = context.WithCancel(context.Background())
	cancelled := making("cancelled", func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		cancel()
		<-ctx.Done()
		return tool.Result{Output: "kept"}, ctx.Err()
	})
	if err := i.Registry.Register(cancelled); err != nil {
		t.Fatal(err)
	}
	o = i.Invoke(ctx, ask("cancelled", `{"q":"a"}`))
	failed(t, o, "stopped before it was finished")
	if o.Abandoned || o.Result.Output != "kept" {
		t.Errorf("%+v", o)
	}
}

func TestP38_PanicIsOneFailedResult(t *testing.T) {
	var log bytes.Buffer
	boom := making("boom", func(context.Context, tool.Call) (tool.Result, error) { panic("secret detail") })
	fine := making("fine", func(_ context.Context, c tool.Call) (tool.Result, error) { return tool.Result{Output: c.ID}, nil })
	i := invoker(t, boom, fine)
	i.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 200 {
		out := make([]Outcome, 3)
		var wg sync.WaitGroup
		for n, name := range []string{"fine", "boom", "fine"} {
			req := ask(name, `{"q":"a"}`)
			req.Call.ID = fmt.Sprint("c", n)
			wg.Go(func() { out[n] = i.Invoke(context.Background(), req) })
		}
		wg.Wait()
		if out[0].Result.Output != "c0" || out[2].Result.Output != "c2" {
			t.Fatalf("%+v", out)
		}
		failed(t, out[1], "fault in itself")
		if strings.Contains(out[1].Result.Error, "secret") || strings.Contains(out[1].Result.Error, "goroutine") {
			t.Fatal(out[1].Result.Error)
		}
	}
	if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "goroutine") {
		t.Error("no stack in the log")
	}
}
