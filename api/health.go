package api

import "net/http"

// health says that the process answers.
func (a *API) health(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, body{"status": "ok", "version": a.Version})
}

// ready says whether the server can do its work, and what keeps it from that.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	problems := map[string]string{}
	if a.Ready != nil {
		problems = a.Ready(r.Context())
	}
	for id, err := range a.Engine.Broken() {
		problems["projection "+id] = err.Error() + "; repair the cause, then run: refold rebuild " + id
	}
	if len(problems) > 0 {
		respond(w, http.StatusServiceUnavailable, body{"status": "not ready", "problems": problems})
		return
	}
	respond(w, http.StatusOK, body{"status": "ready"})
}
