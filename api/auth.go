package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
)

// LocalKeyHeader carries the key of this machine's own user.
const LocalKeyHeader = "X-Refold-Local"

type contextKey int

const (
	requestKey contextKey = iota
	principalKey
	notesKey
	traceKey
)

func requestID(r *http.Request) string {
	id, _ := r.Context().Value(requestKey).(string)
	return id
}

// requestID takes the caller's X-Request-ID, if it is short and printable, or
// makes one, and echoes it.
func (a *API) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-ID")
		if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
			id = uuid.NewString()
		}
		w.Header().Set("X-Request-ID", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey, id)))
	})
}

func (a *API) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			a.log(r).Error("panic while answering", "panic", p, "stack", string(debug.Stack()))
			if ww.Status() == 0 {
				respond(ww, http.StatusInternalServerError, errorBody(1007, "internal error; the server's log has it under request "+requestID(r), nil))
			}
		}()
		next.ServeHTTP(ww, r)
		if rest := notes(r).rest; rest != nil {
			rest()
		}
	})
}

// guard refuses, on a server without a key, what a web page could make a
// browser send here: another host name (rebinding) or another origin.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Key != "" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Headers", "*")
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		} else if !local(r.Host) || !localOrigin(r.Header.Get("Origin")) {
			respond(w, http.StatusForbidden, errorBody(1002, "this server has no API key, so it answers requests to localhost from localhost only; start it with --api-key to be reached otherwise", nil))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func local(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func localOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	_, host, ok := strings.Cut(origin, "://")
	return ok && local(host)
}

func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
