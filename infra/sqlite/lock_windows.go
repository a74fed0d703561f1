package sqlite

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes an exclusive lock that ends with the process, however it dies.
// The locked byte lies far behind the text, so that others can still read it.
func tryLock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
}
