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
	"time"

	"refold/api"
	"refold/domain/tenant"
	"refold/infra/app"
)

// How patient a conversation is.
const (
	reconnects  = 5                // after the server has gone away
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
	link   *link
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
	if t.link.app != nil && !interrupted {
		t.waitForOthers()
	}
	return errors.Join(err, t.link.close())
}

// waitForOthers lets runs end that other command lines have asked this process
// for.
func (t *talk) waitForOthers() {
	told := false
	for t.link.app.Runner.Active() > 0 && t.env.ctx.Err() == nil {
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
		if err := t.link.call(t.ctx, http.MethodPost, "/api/v1/sessions", map[string]string{"title": string(title)}, &s); err != nil {
			return err
		}
		session, fresh = s.ID, true
	}
	res, err := t.link.request(t.ctx, http.MethodPost, "/api/v1/agent-chat/"+url.PathEscape(session), map[string]any{
		"query": question, "agent_id": t.ask.Agent, "agent_enabled": true, "workspace": dir, "channel": "cli",
		"knowledge_base_ids": t.bases})
	if err != nil {
		if fresh { // nothing was asked in it: leave nothing behind
			err = errors.Join(err, t.link.call(t.ctx, http.MethodDelete, "/api/v1/sessions/"+url.PathEscape(session), nil, nil))
		}
		return err
	}
	t.print = &printer{env: t.env, client: t.link.client, session: session, run: res.Header.Get("X-Refold-Run"), final: !terminal(t.out)}
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
		if res, err = t.again(try); err != nil {
			return err
		}
	}
}

// again finds another server after the stream broke off, or becomes it, and goes
// on from the last frame.
func (t *talk) again(try int) (*http.Response, error) {
	var last error
	for n := 0; n <= 3*(try+1); n++ {
		if n > 0 || try > 0 {
			select {
			case <-time.After(300 * time.Millisecond):
			case <-t.ctx.Done():
				return nil, context.Cause(t.ctx)
			}
		}
		if t.link.app == nil { // our own server is still here; another may be gone
			l, err := t.connect(t.config)
			if err != nil {
				last = err
				continue
			}
			t.link = l
		}
		if t.link.app != nil {
			t.link.app.Take(tenant.Name(t.cli.Tenant), t.print.session, t.print.run)
		}
		t.print.client = t.link.client
		res, err := t.link.resume(t.ctx, t.print.session, t.print.run, t.print.last)
		if err == nil {
			return res, nil
		}
		last = err
	}
	return nil, fmt.Errorf("the server went away and no other was found: %w; the run goes on when one runs: refold serve, then refold replay %s", last, t.print.run)
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
	if err := t.link.call(ctx, http.MethodGet, "/api/v1/runs/"+url.PathEscape(t.print.run), nil, &row); err != nil {
		return ""
	}
	return row.WaitsFor
}

// trouble is what the server says it is not ready for; "" if all is well, or if
// it does not answer (the stream tells that).
func (t *talk) trouble() string {
	ctx, cancel := context.WithTimeout(t.ctx, lookAfter)
	defer cancel()
	problems, err := t.link.problems(ctx)
	if err != nil {
		return ""
	}
	slices.Sort(problems)
	return strings.Join(problems, "; ")
}
