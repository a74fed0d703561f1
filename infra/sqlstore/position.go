package sqlstore

import (
	"fmt"
	"strconv"

	"refold/domain/event"
)

// Position gives a number as a position of fixed width, so that strings compare
// like numbers; "" for 0.
func Position(n int64) event.Position {
	if n == 0 {
		return ""
	}
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[n>>(4*i)&15]
	}
	return event.Position(b[:])
}

// ParsePosition is the inverse of Position; anything else is event.ErrInvalid.
func ParsePosition(p event.Position) (int64, error) {
	if p == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(p), 16, 64)
	if err != nil || Position(n) != p {
		return 0, fmt.Errorf("%w: position %.40q is not of this store", event.ErrInvalid, string(p))
	}
	return n, nil
}

// Limit is how many events a page has, as the port says.
func Limit(limit int) int {
	if limit <= 0 || limit > 1000 {
		return 1000
	}
	return limit
}
