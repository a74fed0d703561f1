package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"refold/api"
	"refold/domain"
	"refold/domain/tenant"
	"refold/infra/app"
)

// How patient a conversation is.
const (
	reconnects  = 5                // times that the stream breaks off
	comesBack   = 5 * time.Second  // in which a server that went away may be started again
	givesUp     = time.Minute      // after which nobody waits for it
	lookAfter   = 5 * time.Second  // between looks at the server's health
	quietAfter  = time.Second      // without a frame: what does the run wait for
	troubleEnds = 12               // looks in a row that may find it unwell
	stopPatient = 10 * time.Second // for the end of the stream after a stop
)

// talk is one question and its answer, over one server or, if that goes away,
// the next.
type talk struct {
	*env
	ask    Ask
	bases  []string // ids of knowledge bases
	config app.Config
	mu     sync.Mutex
	link   *link // guarded by mu; see at
	print  *printer
	end    context.CancelCauseFunc // ends the stream
	ctx    context.Context
}

var errInterrupted = errors.New("interrupted")

// hold asks, prints, and leaves the server.
func (t *talk) hold(question, dir string) error {
	// The requests outlive the first interrupt: it stops the run, and the rest of
	// the stream says how it ended.
	t.ctx, t.end = context.WithCancelCause(context.WithoutCancel(t.env.ctx))
	defer t.end(nil)
	err := t.converse(question, dir)
	if t.print != nil && t.print.ended {
		err = nil
	}
	interrupted := t.env.ctx.Err() != nil
	if interrupted {
		t.exit = ExitStopped
		if errors.Is(context.Cause(t.ctx), errInterrupted) {
			err = nil
		}
	}
	if l := t.at(); l.app != nil && !interrupted && !l.yielded.Load() {
		t.waitForOthers(l.app)
	}
	return errors.Join(err, t.at().close())
}

// at is the server that the conversation is with.
func (t *talk) at() *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.link
}

func (t *talk) goTo(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.link = l
}

// waitForOthers lets runs end that other command lines have asked this process
// for.
func (t *talk) waitForOthers(a *app.App) {
	own := ""
	if t.print != nil {
		own = t.print.run
	}
	told := false
	for a.Runner.Others(tenant.Name(t.cli.Tenant), own) > 0 && t.env.ctx.Err() == nil {
		if !told {
			told = true
			fmt.Fprintln(t.err, "Another question is being answered by this process; it ends when that is done. Ctrl-C ends it now, and the next server goes on.")
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.env.ctx.Done():
		}
	}
}

func (t *talk) converse(question, dir string) error {
	session, fresh := t.ask.Session, false
	if session == "" {
		var s struct {
			ID string `json:"id"`
		}
		title := []rune(question)
		if len(title) > 60 {
			title = title[:60]
		}
		if err := t.at().call(t.ctx, http.MethodPost, "/api/v1/sessions", map[string]string{"title": string(title)}, &s); err != nil {
			return err
		}
		session, fresh = s.ID, true
	}
	res, err := t.at().request(t.ctx, http.MethodPost, "/api/v1/agent-chat/"+url.PathEscape(session), map[string]any{
		"query": question, "agent_id": t.ask.Agent, "agent_enabled": true, "workspace": dir, "channel": "cli",
		"knowledge_base_ids": t.bases})
	if err != nil {
		if fresh { // nothing was asked in it: leave nothing behind
			err = errors.Join(err, t.at().call(t.ctx, http.MethodDelete, "/api/v1/sessions/"+url.PathEscape(session), nil, nil))
		}
		return err
	}
	t.print = &printer{env: t.env, client: func() *client { return t.at().client }, session: session, run: res.Header.Get("X-Refold-Run"), final: !terminal(t.out)}
	done := make(chan struct{})
	defer close(done)
	go t.watch(done)
	for try := 0; ; try++ {
		err := readFrames(res.Body, t.print.frame)
		res.Body.Close()
		switch {
		case t.print.ended:
			t.exit = t.print.code
			return nil
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case err == nil:
			err = io.ErrUnexpectedEOF
		}
		if try == reconnects {
			return fmt.Errorf("the stream broke off: %w; the run goes on when a server runs: refold serve, then refold replay %s", err, t.print.run)
		}
		if res, err = t.again(); err != nil {
			return err
		}
	}
}

// again goes on from the last frame, at the server that runs now. One that went
// away is often started again, so it has some time for that; then this process
// takes the run over, unless it lacks the run's model.
func (t *talk) again() (*http.Response, error) {
	last := errors.New("none is there")
	unable := false
	for began := time.Now(); time.Since(began) < givesUp; {
		l := t.at()
		if l.app != nil && l.yielded.Load() {
			_ = l.close() // it has been: the record is free now
		}
		if l.app == nil || l.yielded.Load() {
			l = t.find(t.config)
			if l != nil && l.command != nil { // which moves what it was asked for only
				if last = l.command.Take(t.ctx, tenant.Name(t.cli.Tenant), t.print.session, t.print.run); last != nil {
					l = nil
				}
			} else if l == nil && !unable && time.Since(began) >= comesBack {
				l, last = t.takeOver()
				unable = l == nil && errors.As(last, new(*domain.Rejection))
				if unable {
					fmt.Fprintln(t.err, "Waiting for the server that went away:", plainText(last.Error()))
				}
			}
		}
		if l != nil {
			t.goTo(l)
			res, err := l.resume(t.ctx, t.print.session, t.print.run, t.print.last)
			if err == nil {
				return res, nil
			}
			last = err
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		}
	}
	return nil, fmt.Errorf("the server went away and no other was found: %w; the run goes on when one runs: refold serve, then refold replay %s", last, t.print.run)
}

// takeOver makes this process the one that moves the run, until a server wants
// to. It is refused with a domain.Rejection if it lacks the run's model.
func (t *talk) takeOver() (*link, error) {
	l, err := t.start(t.config, true)
	if err != nil {
		return nil, err
	}
	in := tenant.Name(t.cli.Tenant)
	if err := l.app.CanMove(t.ctx, in, t.print.run); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.app.Take(in, t.print.session, t.print.run)
	return l, nil
}

// resume opens a run's stream after a frame.
func (c *client) resume(ctx context.Context, session, run, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/sessions/continue-stream/"+url.PathEscape(session)+"?message_id="+url.QueryEscape(run), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(api.LocalKeyHeader, c.key)
	req.Header.Set(api.TenantHeader, strconv.FormatInt(c.tenant, 10))
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // the status says enough
		res.Body.Close()
		err = c.refused(res.StatusCode, raw)
	}
	return res, err
}

// watch stops the run when the user interrupts, and tells what keeps the server
// from working, so that nobody waits without knowing why.
func (t *talk) watch(done <-chan struct{}) {
	look, quiet := time.NewTicker(lookAfter), time.NewTicker(quietAfter)
	defer look.Stop()
	defer quiet.Stop()
	told, unwell, waits := "", 0, ""
	for {
		select {
		case <-done:
			return
		case <-t.env.ctx.Done():
			t.stop() // of signals: the next one ends the process
			if !t.print.stopRun(t.ctx) {
				fmt.Fprintf(t.err, "The run was not stopped: it goes on when a server runs. On the record: run %s, session %s\n", t.print.run, t.print.session)
				t.end(errInterrupted)
				return
			}
			select {
			case <-done:
			case <-time.After(stopPatient):
				t.end(errInterrupted)
			}
			return
		case <-quiet.C:
			if time.Since(time.UnixMilli(t.print.heard.Load())) < quietAfter {
				continue
			}
			if now := t.waitsFor(); now != waits && now != "" {
				fmt.Fprintln(t.err, "Waiting:", plainText(now))
				waits = now
			}
		case <-look.C:
			trouble := t.trouble()
			if trouble == "" {
				told, unwell = "", 0
				continue
			}
			if trouble != told {
				told = trouble
				fmt.Fprintln(t.err, "Waiting:", plainText(trouble))
			}
			if unwell++; unwell >= troubleEnds {
				t.end(fmt.Errorf("the server can't go on: %s", trouble))
				return
			}
		}
	}
}

// waitsFor is what the run waits for, as its server knows; "" if for nothing, or
// if the server does not say.
func (t *talk) waitsFor() string {
	ctx, cancel := context.WithTimeout(t.ctx, lookAfter)
	defer cancel()
	var row struct {
		WaitsFor string `json:"waits_for"`
	}
	if err := t.at().call(ctx, http.MethodGet, "/api/v1/runs/"+url.PathEscape(t.print.run), nil, &row); err != nil {
		return ""
	}
	return row.WaitsFor
}

// trouble is what the server says it is not ready for; "" if all is well, or if
// it does not answer (the stream tells that).
func (t *talk) trouble() string {
	ctx, cancel := context.WithTimeout(t.ctx, lookAfter)
	defer cancel()
	problems, err := t.at().problems(ctx)
	if err != nil {
		return ""
	}
	slices.Sort(problems)
	return strings.Join(problems, "; ")
}
