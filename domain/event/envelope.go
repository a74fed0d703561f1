package event

import "time"

// Envelope is what a command adds to the events that it appends.
type Envelope struct {
	Time time.Time
	Meta Metadata
}
