//go:build unix

package sqlite

import (
	"path/filepath"
	"syscall"
)

// full tells whether the disk of a file has no room for another page or two: the
// driver reports that as a plain I/O error.
func full(path string) bool {
	var s syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(path), &s) != nil {
		return false
	}
	return uint64(s.Bavail)*uint64(s.Bsize) < 64<<10
}

// fixed tells whether a file lies where this process can write nothing, whatever
// its rights.
func fixed(path string) bool {
	const readOnly = 1 // ST_RDONLY, MNT_RDONLY
	var s syscall.Statfs_t
	return syscall.Statfs(filepath.Dir(path), &s) == nil && s.Flags&readOnly != 0
}
