package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"refold/domain/event"
)

// InstanceHeader lets a command line that knows a server's local key tell that
// server from another one that has its address now.
const InstanceHeader = "X-Refold-Instance"

// InstanceOf is what the server with a local key answers in InstanceHeader. It
// does not give the key away.
func InstanceOf(localKey string) string {
	sum := sha256.Sum256([]byte("refold instance " + localKey))
	return hex.EncodeToString(sum[:16])
}

// health says that the process answers.
func (a *API) health(w http.ResponseWriter, r *http.Request) {
	if a.LocalKey != "" {
		w.Header().Set(InstanceHeader, InstanceOf(a.LocalKey))
	}
	respond(w, http.StatusOK, body{"status": "ok", "version": a.Version})
}

// stopped says why a read model is kept up to date no longer, and what to do.
func stopped(id string, err error) string {
	var damaged *event.DamagedError
	if errors.As(err, &damaged) {
		return damaged.Where() + "; " + event.RestoreAdvice
	}
	return err.Error() + "; repair the cause, then run: refold rebuild " + id
}

// ready says whether the server can do its work, and what keeps it from that.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	problems := map[string]string{}
	if a.Ready != nil {
		problems = a.Ready(r.Context())
	}
	for id, err := range a.Engine.Broken() {
		problems["projection "+id] = stopped(id, err)
	}
	if len(problems) > 0 {
		respond(w, http.StatusServiceUnavailable, body{"status": "not ready", "problems": problems})
		return
	}
	out := body{"status": "ready"}
	if a.Notes != nil {
		if notes := a.Notes(); len(notes) > 0 {
			out["notes"] = notes
		}
	}
	respond(w, http.StatusOK, out)
}
