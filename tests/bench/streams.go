//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"refold/tests/bench/load"
)

// idle opens streams of one session in which nothing happens, in a server of
// their own, then lets something happen and counts who hears all of it.
func idle(t *T, streams int) (each float64, heard int, took time.Duration) {
	var limit syscall.Rlimit
	t.check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if want := uint64(streams + 500); limit.Cur < want {
		limit.Cur, limit.Max = want, max(limit.Max, want)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatalf("%d streams need as many open files: %v; raise ulimit -n", streams, err)
		}
	}
	s := t.serve(t.TempDir(), t.model(1))
	session, err := load.Session(s.base())
	t.check(err)
	time.Sleep(time.Second) // what a start still does in the background
	before := s.memory()
	conns := make([]net.Conn, streams)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	request := fmt.Appendf(nil, "GET /api/v1/sessions/%s/events HTTP/1.1\r\nHost: %s\r\n\r\n", session, s.addr)
	const openers = 16
	errs := make([]error, openers)
	var all sync.WaitGroup
	for i := range openers {
		all.Go(func() {
			for k := i; k < streams && errs[i] == nil; k += openers {
				errs[i] = func() error {
					c, err := net.Dial("tcp", s.addr)
					if err != nil {
						return err
					}
					conns[k] = c
					if _, err := c.Write(request); err != nil {
						return err
					}
					var got []byte
					buf := make([]byte, 1024)
					for !bytes.Contains(got, []byte("retry: ")) {
						n, err := c.Read(buf)
						if err != nil {
							return err
						}
						got = append(got, buf[:n]...)
					}
					return nil
				}()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		t.check(err)
	}
	time.Sleep(time.Second)
	each = (s.memory() - before) * 1024 / float64(streams)

	var mu sync.Mutex
	heard = 0
	bodies := map[uint64]int{} // what was heard -> by how many
	var last time.Time
	for _, c := range conns {
		all.Go(func() {
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
			sum := fnv.New64a()
			in := bufio.NewReaderSize(c, 4096)
			for {
				line, err := in.ReadSlice('\n')
				if err != nil && err != bufio.ErrBufferFull {
					if err != io.EOF {
						t.Log(err)
					}
					return
				}
				if bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("data:")) {
					sum.Write(line)
				}
				if bytes.Contains(line, []byte(`"response_type":"complete"`)) {
					mu.Lock()
					bodies[sum.Sum64()]++
					last = time.Now()
					mu.Unlock()
					return
				}
			}
		})
	}
	began := time.Now()
	t.check(load.Ask(s.base(), session, nil))
	all.Wait()
	for _, n := range bodies {
		heard = max(heard, n)
	}
	return each, heard, last.Sub(began)
}

// idleStreams is what many readers cost, and that none of them misses anything.
func idleStreams(t *T) {
	const streams = 10_000
	each, heard, took := idle(t, streams)
	t.add("10,000 idle streams, resident memory each", "", each, atMost(35, "KB"), "")
	t.add("those that then hear a turn to its end, byte for byte", "", float64(heard), atLeast(streams, "streams"), "in %.1f s", took.Seconds())
}
