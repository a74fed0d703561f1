package domain

import "errors"

// Kind tells what a rejection means to the one who asked.
type Kind int

const (
	Invalid   Kind = iota // the request can never succeed as it is (400)
	Forbidden             // not for this principal (403)
	Missing               // there is no such thing, or it belongs to another tenant (404)
	Conflict              // not in this state (409)
	Busy                  // not now, later (503)
	Changed               // not what the caller has seen (412)
)

// Rejection says that a rule refused a request. Code is stable and meant for
// programs, Message tells a person what to do. Anything else that goes wrong is
// a conflict (event.ErrConflict) or internal.
type Rejection struct {
	Kind    Kind
	Code    string
	Message string
	Details map[string]any
}

func (r *Rejection) Error() string { return r.Message }

// Is makes errors.Is compare rejections by code.
func (r *Rejection) Is(target error) bool {
	t, ok := target.(*Rejection)
	return ok && t.Code == r.Code
}

// Reject makes a rejection.
func Reject(kind Kind, code, message string) *Rejection {
	return &Rejection{Kind: kind, Code: code, Message: message}
}

// With gives a copy of the rejection with details.
func (r *Rejection) With(details map[string]any) *Rejection {
	c := *r
	c.Details = details
	return &c
}

// AsRejection finds a rejection in an error chain.
func AsRejection(err error) (*Rejection, bool) {
	var r *Rejection
	ok := errors.As(err, &r)
	return r, ok
}
