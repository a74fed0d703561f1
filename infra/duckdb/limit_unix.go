//go:build cgo && linux

package duckdb

import "syscall"

// limit asks the system to bound this process: what the engine's own limits
// overlook ends the process, not the machine.
func limit() error {
	for resource, n := range map[int]uint64{
		syscall.RLIMIT_AS:     8 << 30, // address space, most of it never used
		syscall.RLIMIT_DATA:   3 << 30,
		syscall.RLIMIT_CPU:    600, // seconds in all
		syscall.RLIMIT_CORE:   0,
		syscall.RLIMIT_FSIZE:  0, // no file can be written
		syscall.RLIMIT_NOFILE: 64,
	} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	return nil
}
