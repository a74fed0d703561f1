// Package cli is the command line of Refold: one struct per command, parsed by
// kong. It may import everything. Start reading at CLI.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"refold/infra/app"
	"refold/infra/extractive"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitError   = 1   // something went wrong; the message says what to do
	ExitUsage   = 2   // the command line itself is wrong
	ExitFailed  = 3   // ask: the run ended without an answer; doc add: files were refused or failed
	ExitPartial = 4   // ask: the run was stopped, or ended with a fixed text
	ExitUnequal = 5   // rebuild: the new read model differs from the old one
	ExitStopped = 130 // ask, doc add: stopped by Ctrl-C
)

// Version is the build's version; the Makefile sets it.
var Version = "dev"

// CLI is the command line.
type CLI struct {
	Data   string `help:"Directory of the record." env:"REFOLD_DATA" placeholder:"DIR"`
	Store  string `help:"Record: empty = a file in the data directory; postgres://USER:PASSWORD@HOST:PORT/DATABASE = shared by several processes." env:"REFOLD_STORE" placeholder:"URL"`
	Config string `help:"JSON configuration file (addr, data, api_key, roots, models, default_model)." env:"REFOLD_CONFIG" placeholder:"FILE" type:"existingfile"`
	JSON   bool   `help:"Print JSON (one object a line) instead of text, also of errors." name:"json"`
	Tenant int64  `help:"Number of the tenant." default:"1" env:"REFOLD_TENANT" placeholder:"N"`

	Serve     Serve     `cmd:"" help:"Serve the API and work on runs."`
	Ask       Ask       `cmd:"" help:"Ask a question, with or without a running server."`
	KB        KB        `cmd:"" name:"kb" help:"List, make and delete knowledge bases."`
	Doc       Doc       `cmd:"" help:"Add, list, show and delete documents of knowledge bases."`
	Search    Search    `cmd:"" help:"Find passages in knowledge bases."`
	Approvals Approvals `cmd:"" help:"List and answer what waits for a person."`
	Keys      Keys      `cmd:"" help:"List, make and revoke API keys."`
	Tenants   Tenants   `cmd:"" help:"List and make tenants."`
	Replay    Replay    `cmd:"" help:"Print a run event by event: state, and what was due."`
	Events    Events    `cmd:"" help:"Print or follow the log as JSON lines."`
	Rebuild   Rebuild   `cmd:"" help:"Rebuild a read model from the log and compare it with the old one."`
	Clean     Clean     `cmd:"" help:"Remove stored files and results that nothing names any more."`
	Migrate   Migrate   `cmd:"" help:"Bring the database's schema up to date."`
	Version   VersionOf `cmd:"" help:"Print the version."`

	ShowVersion versionFlag `help:"Print the version." name:"version"`
}

// versionFlag is --version, wherever a command may or may not follow.
type versionFlag bool

// BeforeReset prints the version instead of running a command.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	fmt.Fprintln(k.Stdout, "refold", version())
	k.Exit(ExitOK)
	return nil
}

// env is what commands run with.
type env struct {
	ctx    context.Context
	stop   func() // restores the default handling of signals
	cli    *CLI
	in     io.Reader
	out    *output
	err    io.Writer
	exit   int
	config app.Config
}

// ModelFlags choose the model. The environment names of OpenAI are understood.
type ModelFlags struct {
	Model        string        `help:"Model, as its server names it; empty = the server's first." env:"REFOLD_MODEL,OPENAI_MODEL" placeholder:"NAME"`
	ModelURL     string        `help:"OpenAI-compatible server, up to /v1." env:"REFOLD_MODEL_URL,OPENAI_BASE_URL" placeholder:"URL" name:"model-url"`
	ModelKey     string        `help:"Key of the model server." env:"REFOLD_MODEL_KEY,OPENAI_API_KEY" placeholder:"KEY" name:"model-key"`
	ModelTimeout time.Duration `help:"Time for one model call." default:"120s" env:"REFOLD_MODEL_TIMEOUT"`
	Temperature  float64       `help:"Temperature, 0 to 2; negative = the agent's own." default:"-1" env:"REFOLD_TEMPERATURE"`
	Context      int           `help:"Tokens that a request to the model and its reply may take; 0 = 200000." default:"0" env:"REFOLD_CONTEXT_TOKENS" name:"context-tokens"`
	RunTimeout   time.Duration `help:"Deadline of a whole run; 0 = none." default:"0s" env:"REFOLD_RUN_TIMEOUT"`
	Embedding    string        `help:"Model that makes vectors for searches by meaning, on the model server unless --embedding-url names another; empty = search by words." env:"REFOLD_EMBEDDING_MODEL" placeholder:"NAME" name:"embedding-model"`
	EmbeddingURL string        `help:"Server of the embedding model, up to /v1." env:"REFOLD_EMBEDDING_URL" placeholder:"URL" name:"embedding-url"`
	EmbeddingKey string        `help:"Key of that server." env:"REFOLD_EMBEDDING_KEY" placeholder:"KEY" name:"embedding-key"`
	Rerank       string        `help:"Model that judges passages by /rerank, on the server of --rerank-url." env:"REFOLD_RERANK_MODEL" placeholder:"NAME" name:"rerank-model"`
	RerankURL    string        `help:"Server of the rerank model, up to /v1." env:"REFOLD_RERANK_URL" placeholder:"URL" name:"rerank-url"`
	RerankKey    string        `help:"Key of that server." env:"REFOLD_RERANK_KEY" placeholder:"KEY" name:"rerank-key"`
}

// given tells whether any of them chooses a model.
func (m ModelFlags) given() bool { return m.Model != "" || m.ModelURL != "" || m.ModelKey != "" }

func (m ModelFlags) apply(c *app.Config) error {
	if m.Temperature > 2 {
		return errors.New("--temperature must be at most 2")
	}
	if m.ModelTimeout <= 0 || m.ModelTimeout > time.Hour {
		return errors.New("--model-timeout must be more than 0 and at most 1h")
	}
	if m.Context != 0 && m.Context < app.MinContextTokens {
		return fmt.Errorf("--context-tokens must be at least %d, or 0", app.MinContextTokens)
	}
	c.ContextTokens = m.Context
	c.Temperature, c.RunTimeout, c.ModelTime = m.Temperature, m.RunTimeout, m.ModelTimeout
	switch {
	case m.Model == extractive.Name:
		c.Default = extractive.Name
	case m.ModelURL != "" || m.ModelKey != "":
		name := m.Model
		if name == "" {
			name = "default"
		}
		c.Models = append([]app.ModelConfig{{Name: name, BaseURL: m.ModelURL, APIKey: m.ModelKey, Model: m.Model,
			TimeoutSec: int(m.ModelTimeout.Seconds())}}, c.Models...)
		c.Default = name
	case m.Model != "":
		c.Default = m.Model // one of the configuration file's
	}
	if m.Embedding != "" {
		v := app.VectorModel{Model: m.Embedding, BaseURL: m.EmbeddingURL, APIKey: m.EmbeddingKey}
		if v.BaseURL == "" {
			v.BaseURL = m.ModelURL
			if v.APIKey == "" {
				v.APIKey = m.ModelKey
			}
		}
		c.Embeddings = append([]app.VectorModel{v}, c.Embeddings...)
	}
	if m.Rerank != "" {
		if m.RerankURL == "" {
			return errors.New("--rerank-model needs --rerank-url")
		}
		c.Rerankers = append([]app.VectorModel{{Model: m.Rerank, BaseURL: m.RerankURL, APIKey: m.RerankKey}}, c.Rerankers...)
	}
	return nil
}

// Main runs a command line and gives its exit code. ctx ends at the first
// interrupt; after stop the next one kills.
func Main(ctx context.Context, stop func(), args []string, in io.Reader, out, errOut io.Writer) int {
	var c CLI
	code := -1
	parser, err := kong.New(&c, kong.Name("refold"), kong.Description(description), kong.Writers(out, errOut),
		kong.Exit(func(n int) { code = n }), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		fmt.Fprintln(errOut, "refold:", err)
		return ExitError
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // as other command lines have it
		args = append(args[1:], "--help")
	}
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help has printed and asked to exit
		return code
	}
	e := &env{ctx: ctx, stop: stop, cli: &c, in: in, out: &output{w: out}, err: errOut}
	if err != nil {
		if c.JSON = c.JSON || asksForJSON(args); !c.JSON {
			err = fmt.Errorf("%w\nTry: refold %s--help", err, named(err))
		}
		return e.report(usage("%w", err))
	}
	e.config = app.Config{Data: c.Data, Store: c.Store, Version: version(), Temperature: -1, Log: slog.New(slog.DiscardHandler)}
	if c.Config != "" {
		if err := e.config.ReadFile(c.Config); err != nil {
			return e.report(err)
		}
	}
	if e.config.Data == "" {
		if e.config.Data, err = app.DefaultData(); err != nil {
			return e.report(err)
		}
	}
	err = parsed.Run(e)
	if lost := e.out.problem(); lost != nil && (err == nil || errors.Is(err, e.out.err)) {
		err = lost
	}
	if err != nil {
		return e.report(err)
	}
	return e.exit
}

const description = `Refold runs AI agents on the record: every step is an event in a log.

Examples:
  refold serve                                     serve on 127.0.0.1:8080
  refold ask --dir . "How does a run survive a crash?"
  refold kb create Handbook                        a place for documents
  refold doc add ./docs --kb Handbook --wait       put documents into it
  refold ask --kb Handbook "How do I restore a backup?"
  refold events --follow                           watch the log
  refold replay RUN                                see a run step by step`

// report prints an error and gives the exit code.
func (e *env) report(err error) int {
	if e.cli.JSON && e.out.err == nil {
		e.line(map[string]any{"error": err.Error()})
	} else {
		fmt.Fprintln(e.err, "refold:", plainText(err.Error()))
	}
	var bad usageError
	var config *app.ConfigError
	if errors.As(err, &bad) || errors.As(err, &config) {
		return ExitUsage
	}
	return ExitError
}

// named is the command that a wrong command line has named, with a space; "" if it
// has named none.
func named(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil || wrong.Context.Selected() == nil {
		return ""
	}
	return wrong.Context.Selected().Path() + " "
}

// asksForJSON tells whether a command line that can't be parsed has --json.
func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// usageError says that the command line itself is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// line prints one JSON object.
func (e *env) line(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(e.err, "refold: print:", err)
		e.exit = ExitError
		return
	}
	e.raw(b.Bytes())
}

// raw prints a line of JSON. On a terminal, characters that would steer it are
// escaped: they stand in strings only, so the value is the same.
func (e *env) raw(line []byte) {
	if terminal(e.out) {
		line = escapeControls(line)
	}
	_, _ = e.out.Write(line) // it remembers the error
}

func version() string {
	if Version != "dev" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "dev-" + s.Value[:12]
			}
		}
	}
	return Version
}

// VersionOf prints the version.
type VersionOf struct{}

// Help gives examples.
func (VersionOf) Help() string {
	return `Examples:
  refold version
  refold version --json`
}

// Run prints it.
func (VersionOf) Run(e *env) error {
	if e.cli.JSON {
		e.line(map[string]string{"version": version()})
		return nil
	}
	fmt.Fprintln(e.out, "refold", version())
	return nil
}

// terminal tells whether a stream is one that a person looks at.
func terminal(w any) bool {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !strings.EqualFold(os.Getenv("TERM"), "dumb")
}
