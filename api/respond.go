package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"refold/domain"
	"refold/domain/event"
	"refold/projections"
)

// body is a JSON object of an answer.
type body map[string]any

// stamp is a time as JSON has it, for what is sent in numbers: a string is encoded
// much faster than a time.
func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

func ok(data any) body { return body{"success": true, "data": data} }

// buffers are for answers that are being encoded.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKept is the largest buffer that is kept for the next answer.
const maxKept = 64 << 10

func respond(w http.ResponseWriter, status int, v any) {
	b := buffers.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= maxKept {
			b.Reset()
			buffers.Put(b)
		}
	}()
	enc := json.NewEncoder(b)
	if err := enc.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString(`{"success":false,"error":{"code":1007,"message":"the answer could not be encoded","details":null}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone; nothing to do about it
}

func errorBody(code int, message string, details map[string]any) body {
	var d any
	if details != nil {
		d = details
	}
	return body{"success": false, "error": body{"code": code, "message": message, "details": d}}
}

func invalid(message string) error {
	return domain.Reject(domain.Invalid, "bad_request", message)
}

func notFound(message string) error {
	return domain.Reject(domain.Missing, "not_found", message)
}

var errWorkspace = domain.Reject(domain.Forbidden, "workspace_not_allowed",
	"this folder may not be opened; start the server with --root naming a folder above it, or ask from the command line of the same user")

// fail answers with an error: rejections by their kind, everything else as a
// conflict, an outage, or an internal error whose text goes to the log only.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, code, message, details := a.explain(r, err)
	respond(w, status, errorBody(code, message, details))
}

func (a *API) explain(r *http.Request, err error) (status, code int, message string, details map[string]any) {
	var tooLarge *http.MaxBytesError
	var damaged *event.DamagedError
	if rej, ok := domain.AsRejection(err); ok {
		details = map[string]any{"reason": rej.Code}
		for k, v := range rej.Details {
			details[k] = v
		}
		switch rej.Kind {
		case domain.Forbidden:
			return http.StatusForbidden, 1002, rej.Message, details
		case domain.Missing:
			code = 1003
			if rej.Code == "tenant_not_found" {
				code = 2000
			}
			return http.StatusNotFound, code, rej.Message, details
		case domain.Conflict:
			code = 1005
			if rej.Code == "tenant_exists" {
				code = 2001
			}
			return http.StatusConflict, code, rej.Message, details
		case domain.Busy:
			return http.StatusServiceUnavailable, 1008, rej.Message, details
		case domain.Changed:
			return http.StatusPreconditionFailed, 1005, rej.Message, details
		}
		if rej.Code == "content_required" {
			return http.StatusBadRequest, 1010, rej.Message, details
		}
		return http.StatusBadRequest, 1000, rej.Message, details
	}
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, 1000, "the request body is too large; at most " + size(tooLarge.Limit) + " are taken", nil
	case errors.Is(err, event.ErrConflict):
		return http.StatusConflict, 1005, "somebody else changed this at the same time; try again", nil
	case errors.Is(err, projections.ErrBadCursor):
		return http.StatusBadRequest, 1000, "the cursor does not belong to this list; start without one", nil
	case errors.Is(err, event.ErrUnavailable):
		a.log(r).Error("the store is unavailable", "error", err)
		return http.StatusServiceUnavailable, 1008, "the event store takes nothing right now (disk full, or its file is locked or away); nothing was lost, try again later", nil
	case errors.Is(err, event.ErrUnknownType), errors.Is(err, event.ErrNewerSchema):
		a.log(r).Error("an event of a newer version", "error", err)
		return http.StatusServiceUnavailable, 1008, "the record holds events of a newer refold; upgrade this server", nil
	case errors.As(err, &damaged):
		a.log(r).Error("an event is damaged", "error", err)
		return http.StatusServiceUnavailable, 1008, damaged.Where() + "; " + event.RestoreAdvice, body{"reason": "record_damaged", "position": damaged.Position, "type": damaged.Type}
	case errors.Is(err, event.ErrCorrupt):
		a.log(r).Error("stored data is damaged", "error", err)
		return http.StatusServiceUnavailable, 1008, "the stored data is damaged: what was read is not what was written; stop refold and restore a backup of the record (a read model alone comes back by refold rebuild)", body{"reason": "record_damaged"}
	case errors.Is(err, projections.ErrBehind), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, 1008, "the view has not caught up yet; try again", nil
	case errors.Is(err, context.Canceled):
		return 499, 1009, "the request was cancelled", nil
	}
	a.log(r).Error("request failed", "error", err)
	return http.StatusInternalServerError, 1007, "internal error; the server's log has it under request " + requestID(r), nil
}

func notAllowed(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	respond(w, http.StatusMethodNotAllowed, errorBody(1004, "this route does not take "+r.Method, nil))
}

func size(n int64) string {
	if n%(1<<20) == 0 {
		return strings.TrimSpace(itoa(int(n>>20)) + " MiB")
	}
	return itoa(int(n)) + " bytes"
}
