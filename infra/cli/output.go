package cli

import (
	"fmt"
	"io"
)

// output is standard output. It remembers the first error: a command prints all
// it has to say without looking, and Main looks at its end.
type output struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	o.err = err
	return n, err
}

// problem says what became of what was not written.
func (o *output) problem() error {
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("standard output can't be written (%w): what was to be printed is lost, what was done is on the record", o.err)
}
