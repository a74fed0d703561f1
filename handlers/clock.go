package handlers

import "time"

// Clock tells the time and wakes; tests bring their own.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, in its own goroutine, after d; stop prevents it.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// SystemClock is the real clock.
type SystemClock struct{}

// Now is the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (SystemClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
