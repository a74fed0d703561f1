// Command scriptedmodel serves a script from a JSON file as a model, for trials
// by hand: point OPENAI_BASE_URL at it. See scripted.File for the format.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"refold/tests/scripted"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8399", "address to listen on")
	script := flag.String("script", "", "JSON file with the script (required)")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), `scriptedmodel serves a scripted model with OpenAI's wire format.

  scriptedmodel --script FILE [--addr HOST:PORT]

A script: {"repeat": true, "steps": [
  {"reasoning": "I need the time.", "calls": [{"name": "now", "args": {}}]},
  {"text": ["It is ", "noon."], "pause_ms": 200},
  {"status": 429, "headers": {"Retry-After": "2"}, "body": "{}"},
  {"raw": ["data: ..."], "end": "reset"}]}

`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*addr, *script); err != nil {
		fmt.Fprintln(os.Stderr, "scriptedmodel:", err)
		os.Exit(1)
	}
}

func run(addr, script string) error {
	if script == "" {
		return fmt.Errorf("no script given: see --help")
	}
	raw, err := os.ReadFile(script)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	file, err := scripted.ParseFile(raw)
	if err != nil {
		return err
	}
	s, err := scripted.Start(addr)
	if err != nil {
		return err
	}
	file.Play(s)
	fmt.Println(s.URL)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return s.Close()
}
