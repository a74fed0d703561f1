package event

import "fmt"

// DamagedError is an ErrCorrupt that knows which event of the log can't be read.
type DamagedError struct {
	Stream   Stream
	Version  int64
	Position Position
	Type     string
	Cause    error // wraps ErrCorrupt
}

// Damaged is the DamagedError of a stored event; cause wraps ErrCorrupt.
func Damaged(r Raw, cause error) error {
	return &DamagedError{Stream: r.Stream, Version: r.Version, Position: r.Position, Type: r.Type, Cause: cause}
}

// Where says which event it is without naming its stream, for people of any tenant.
func (e *DamagedError) Where() string {
	return fmt.Sprintf("the record is damaged: the event at position %s (%s) can't be read", e.Position, e.Type)
}

// RestoreAdvice is what can be done about a damaged record, and what can't.
const RestoreAdvice = "stop refold and restore a backup of the record; refold rebuild and refold replay read the same event and do not help"

// Error says which event of which stream it is, why, and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("event %d of %s (%s) at position %s: %v; %s", e.Version, e.Stream, e.Type, e.Position, e.Cause, RestoreAdvice)
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Cause }
