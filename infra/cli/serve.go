package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"refold/infra/app"
	"refold/infra/parse"
	"refold/infra/sqlite"
)

// Serve serves the API.
type Serve struct {
	Addr   string   `help:"Address to listen on." env:"REFOLD_ADDR" placeholder:"HOST:PORT"`
	APIKey string   `help:"Key that every request must carry; needed to listen beyond this machine; at least 16 characters." env:"REFOLD_API_KEY" name:"api-key" placeholder:"KEY"`
	Root   []string `help:"Folder that requests may open as workspace, with all below it; for another tenant than 1: N=DIR; repeatable." placeholder:"DIR"`
	Rate   string   `help:"Requests that one key may make: 20/s, 600/m, off; five seconds' worth at once." env:"REFOLD_RATE" placeholder:"N/s"`
	Chat   string   `help:"Messages to agents that one key may send, likewise." env:"REFOLD_CHAT_RATE" name:"chat-rate" placeholder:"N/s"`
	Upload int      `help:"Largest file for a knowledge base, in MiB, at most 100; 0 = 50." env:"REFOLD_MAX_UPLOAD" name:"max-upload" placeholder:"MIB"`
	Level  string   `help:"What is logged: debug, info (a line for each request), warn or error." enum:"debug,info,warn,error" default:"info" env:"REFOLD_LOG_LEVEL" name:"log-level"`
	Allow  []string `help:"Range of addresses (CIDR, or CIDR:PORT for a port that is none of pages) that links from people or models may lead to although it is not public; repeatable." name:"allow-net" placeholder:"CIDR"`
	Sample bool     `help:"Begin a fresh record with a sample knowledge base: the handbook of this program."`
	Quiet  bool     `help:"Log errors only, like --log-level error."`
	ModelFlags
}

// Help gives examples.
func (Serve) Help() string {
	return `Examples:
  refold serve
  refold serve --addr 127.0.0.1:9000 --data ./data --root ~/notes
  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 refold serve --model qwen3
  refold serve --addr 0.0.0.0:8080 --api-key "$(openssl rand -hex 24)"`
}

// Run serves until it is interrupted.
func (s Serve) Run(e *env) error {
	c := e.config
	if s.Addr != "" {
		c.Addr = s.Addr
	}
	if s.APIKey != "" {
		c.APIKey = s.APIKey
	}
	if s.Rate != "" {
		c.Rate = s.Rate
	}
	if s.Chat != "" {
		c.ChatRate = s.Chat
	}
	if s.Upload < 0 || s.Upload > parse.MaxFile>>20 {
		return usage("--max-upload is from 0 to %d MiB: larger files are not read", parse.MaxFile>>20)
	}
	if s.Upload > 0 {
		c.MaxUpload = int64(s.Upload) << 20
	}
	for _, root := range s.Root {
		abs, err := app.AbsRoot(root)
		if err != nil {
			return err
		}
		c.Roots = append(c.Roots, abs)
	}
	c.Sample = s.Sample
	c.AllowNet = append(c.AllowNet, s.Allow...)
	if err := s.apply(&c); err != nil {
		return usage("%v", err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		return usage("--log-level: %v", err)
	}
	if s.Quiet {
		level = slog.LevelError
	}
	if os.Getenv("GOGC") == "" {
		// The heap that lives on is small; collecting half as often saves a tenth of the
		// processor for about 15 MiB.
		debug.SetGCPercent(200)
	}
	c.Log = slog.New(slog.NewJSONHandler(e.err, &slog.HandlerOptions{Level: level}))
	a, err := e.openToServe(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", a.Config.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w; choose another with --addr", a.Config.Addr, err), a.Close())
	}
	// Who has read the address may use it: the announcement comes first.
	if err := a.Announce(l); err != nil {
		return errors.Join(err, l.Close(), a.Close())
	}
	e.welcome(a, l.Addr().String())
	err = a.Serve(e.ctx, l, true)
	e.stop() // a second interrupt ends the process at once
	return errors.Join(err, a.Close())
}

// How long a server waits for the record, before it says that it is in use.
const (
	commandEnds = 2 * time.Minute  // that a command line has open
	ownerEnds   = 2 * time.Second  // whose owner does not answer: it starts or ends
	yieldEnds   = 20 * time.Second // after a command line that had it open: it hands its work back
)

// openToServe opens the record. A command line that has it open is asked to give
// it up, or waited for.
func (e *env) openToServe(c app.Config) (*app.App, error) {
	told, began, heard, silent := false, time.Now(), time.Now(), ownerEnds
	for {
		a, err := app.Open(e.ctx, c)
		var used *sqlite.InUseError
		if !errors.As(err, &used) {
			return a, err
		}
		owner, answers := app.FindServer(e.ctx, c.Data)
		if answers {
			heard, silent = time.Now(), yieldEnds
		}
		switch {
		case answers && !owner.Command, time.Since(heard) > silent, time.Since(began) > commandEnds:
			return nil, err
		case answers && !owner.Yield(e.ctx) && !told:
			told = true
			c.Log.Warn("the start waits for a command line that has the record open; it ends with its work", "process", used.Process)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-e.ctx.Done():
			return nil, err
		}
	}
}

func (e *env) welcome(a *app.App, addr string) {
	here, elsewhere := reachable(addr)
	if e.cli.JSON {
		e.line(map[string]any{"addr": addr, "url": here, "data": a.Config.Data, "pid": os.Getpid()})
		return
	}
	from, key := "", ""
	if elsewhere != "" {
		from = "\nFrom other machines: " + elsewhere
	}
	if a.Config.APIKey != "" { // which is not shown: terminals and logs keep what they print
		key = `-H "X-API-Key: $REFOLD_API_KEY" `
	}
	self := filepath.Base(os.Args[0])
	if p := os.Args[0]; p != self {
		self = p
	}
	if e.cli.Data != "" { // also from the environment, which the other terminal may not have
		if dir, err := filepath.Abs(a.Config.Data); err == nil {
			self += " --data " + word(dir)
		}
	}
	fmt.Fprintf(e.out, `Refold %s serves on %s%s
The record is in %s

Try next, in another terminal:
  %s ask --dir . "How does a run survive a crash?"
  %s events --follow
  curl %s%s/api/v1/sessions

`, a.Config.Version, here, from, recordOf(a.Config), self, self, key, here)
}

// word is a text as one word of a shell's command line.
func word(s string) string {
	if s != "" && strings.Trim(s, "/.-_+=:@%,0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// recordOf says where a process keeps its record, without who it is there.
func recordOf(c app.Config) string {
	if c.Store == "" {
		return c.Data
	}
	u, err := url.Parse(c.Store)
	if err != nil || u.Host == "" {
		return "the database that --store names"
	}
	return "the database " + u.Host + u.Path
}

// reachable gives the URL of a listening address for this machine, and, if it
// listens on all of them, one for others ("" if not).
func reachable(addr string) (here, elsewhere string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr, ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			elsewhere = "http://" + net.JoinHostPort(name, port)
		}
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), elsewhere
}
