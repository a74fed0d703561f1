package app

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// yieldPath is where a command line is asked to give the record up.
const yieldPath = "/local/yield"

// Yield asks the command line behind the endpoint to give the record up to a
// server. false if it does not: it has work of its own to end.
func (e Endpoint) Yield(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr+yieldPath, nil)
	if err != nil {
		return false
	}
	req.Header.Set(api.LocalKeyHeader, e.LocalKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusAccepted
}

// yielding answers what Yield asks, and leaves the rest to next.
func (a *App) yielding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != yieldPath:
			next.ServeHTTP(w, r)
		case subtle.ConstantTimeCompare([]byte(r.Header.Get(api.LocalKeyHeader)), []byte(a.LocalKey)) != 1:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost && a.Yields():
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusConflict)
		}
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
