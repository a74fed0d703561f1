package app

import (
	"context"
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
