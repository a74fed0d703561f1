package sqlite

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"refold/domain/event"
)

// InUseError says that another process may write the file. It is an
// event.ErrUnavailable.
type InUseError struct{ Path, Process string }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("%v: the database %s is in use by process %s; stop that refold or name another file with --data", event.ErrUnavailable, e.Path, e.Process)
}

// Unwrap gives event.ErrUnavailable.
func (e *InUseError) Unwrap() error { return event.ErrUnavailable }

// acquire takes the right to write the database: an advisory lock on
// "<path>.lock", which holds the owner's process id for people. The file stays
// when the lock ends; deleting it would let two owners lock two files.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: the lock file of the database %s cannot be opened (%v); check that this user may write the directory", event.ErrUnavailable, path, err)
	}
	if err := tryLock(f); err != nil {
		owner := make([]byte, 32)
		n, _ := f.ReadAt(owner, 0)
		f.Close()
		return nil, &InUseError{path, strings.TrimSpace(string(owner[:n]))}
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: the lock file of the database %s cannot be written (%v)", event.ErrUnavailable, path, err)
	}
	return f, nil
}
