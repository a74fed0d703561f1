package app

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"refold/api"
)

// Endpoint says how the command lines of the same user reach a running server.
// The file is readable by that user only; its key proves just that.
type Endpoint struct {
	Addr     string `json:"addr"`
	PID      int    `json:"pid"`
	LocalKey string `json:"local_key"`
	Version  string `json:"version"`
	// Command: the process is a command line that has the record open while it runs.
	Command bool `json:"command,omitempty"`
}

// What is asked of a command line that has the record open.
const (
	yieldPath = "/local/yield" // give it up
	takePath  = "/local/take"  // move a run
)

// Yield asks the command line behind the endpoint to give the record up to a
// server. false if it does not: it has work of its own to end.
func (e Endpoint) Yield(ctx context.Context) bool { return e.ask(ctx, yieldPath, "") == nil }

// Take asks the command line behind the endpoint to move a run whose server is
// gone. It is an error if it does not, as it lacks the run's model.
func (e Endpoint) Take(ctx context.Context, tenant, session, run string) error {
	return e.ask(ctx, takePath, url.Values{"tenant": {tenant}, "session": {session}, "run": {run}}.Encode())
}

func (e Endpoint) ask(ctx context.Context, path, form string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr+path, strings.NewReader(form))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set(api.LocalKeyHeader, e.LocalKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // the status says enough
		return fmt.Errorf("process %d has the record open and does not: %s", e.PID, strings.TrimSpace(string(why)))
	}
	return nil
}

// local answers what command lines ask each other, and leaves the rest to next.
func (a *App) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != yieldPath && r.URL.Path != takePath {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodPost || subtle.ConstantTimeCompare([]byte(r.Header.Get(api.LocalKeyHeader)), []byte(a.LocalKey)) != 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 10_000)
		tenant, session, run := r.FormValue("tenant"), r.FormValue("session"), r.FormValue("run")
		switch {
		case r.URL.Path == yieldPath && a.Yields != nil && a.Yields():
		case r.URL.Path == yieldPath:
			http.Error(w, "it has work of its own to end", http.StatusConflict)
			return
		default:
			if err := a.CanMove(r.Context(), tenant, run); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			a.Take(tenant, session, run)
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

func endpointFile(data string) string { return filepath.Join(data, "server.json") }

func writeEndpoint(data string, e Endpoint) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(data, ".server-*.json") // made with mode 0600
	if err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), endpointFile(data))
	}
	if err != nil {
		return fmt.Errorf("announce the server: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// unannounce takes the announcement back, unless another process has made its own.
func (a *App) unannounce() {
	raw, err := os.ReadFile(endpointFile(a.Config.Data))
	var e Endpoint
	if err == nil && json.Unmarshal(raw, &e) == nil && e.LocalKey != a.LocalKey {
		return
	}
	_ = os.Remove(endpointFile(a.Config.Data)) // who finds it asks whether anybody is there
}

// FindServer gives the endpoint of the server that runs on a data directory;
// false if none answers.
func FindServer(ctx context.Context, data string) (Endpoint, bool) {
	var e Endpoint
	raw, err := os.ReadFile(endpointFile(data))
	if err != nil || json.Unmarshal(raw, &e) != nil || e.Addr == "" {
		return e, false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Addr+"/healthz", nil)
	if err != nil {
		return e, false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return e, false
	}
	res.Body.Close()
	// A server that was killed leaves its file behind, and another one, of
	// another record, may have its address by now.
	return e, res.StatusCode == http.StatusOK && res.Header.Get(api.InstanceHeader) == api.InstanceOf(e.LocalKey)
}
