package sqlite

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"refold/domain/event"
)

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
		return nil, fmt.Errorf("%w: the database %s is in use by process %s; stop that refold or name another file with --data",
			event.ErrUnavailable, path, strings.TrimSpace(string(owner[:n])))
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
