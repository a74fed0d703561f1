// Command refold-e2e is a Refold server for end-to-end tests: infra/app as it
// is, with short times where the test wants them, and tools whose effects on
// the world a test can see and interrupt. It prints its address as a line of
// JSON, serves until SIGTERM, and is told everything by the environment.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"refold/domain/tool"
	"refold/infra/app"
)

// settings are what E2E_CONFIG holds. Durations are milliseconds, 0 = the
// server's own.
type settings struct {
	Data, Addr, Key                            string
	Roots                                      []string
	ModelURL                                   string
	Vision, VLM                                bool   // the model sees images; another one describes them
	Ledger                                     string // file that tools append to
	Gate                                       string // unix socket asked around effects; "" = none
	Heartbeat, Write, Read, Approval, RunLimit int
	Context                                    int // tokens of the window
	Gone                                       int
	Collect, Grace                             int // of unused content
	Rate, ChatRate                             string
	Store                                      string // "" = a file in Data
	Upload                                     int64  // bytes of a file for a knowledge base
	Sample                                     bool   // begin with the sample knowledge base
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "refold-e2e:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv("E2E_CONFIG")), &s); err != nil {
		return fmt.Errorf("E2E_CONFIG: %w", err)
	}
	c := app.Config{Data: s.Data, Store: s.Store, Gone: ms(s.Gone), CollectEvery: ms(s.Collect), CollectGrace: ms(s.Grace), Addr: s.Addr, APIKey: s.Key, Roots: s.Roots, Temperature: -1, Version: "e2e",
		RunTimeout: ms(s.RunLimit), ApprovalTimeout: ms(s.Approval), ReadTimeout: ms(s.Read),
		ContextTokens: s.Context, Rate: s.Rate, ChatRate: s.ChatRate, MaxUpload: s.Upload, Sample: s.Sample,
		Log:   slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		Tools: []tool.Tool{ledgerAppend{world{s.Ledger, s.Gate}}, mailSend{world{s.Ledger, s.Gate}}, look{world{s.Ledger, s.Gate}}, flood{}}}
	if s.ModelURL != "" {
		c.Models = []app.ModelConfig{{Name: "scripted", BaseURL: s.ModelURL, Model: "scripted", Vision: s.Vision}}
	}
	if s.VLM {
		c.VLM = "seer"
		c.Models = append(c.Models, app.ModelConfig{Name: c.VLM, BaseURL: s.ModelURL, Model: "seer", Vision: true})
	}
	a, err := app.Open(ctx, c)
	if err != nil {
		return err
	}
	a.API.Heartbeat, a.API.WriteTimeout = ms(s.Heartbeat), ms(s.Write)
	l, err := net.Listen("tcp", a.Config.Addr)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	if err := a.Announce(l); err != nil {
		return errors.Join(err, a.Close())
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"addr": l.Addr().String()}); err != nil {
		return errors.Join(err, a.Close())
	}
	return errors.Join(a.Serve(ctx, l, true), a.Close())
}
