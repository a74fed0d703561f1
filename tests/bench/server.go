//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is the product as a process of its own.
type server struct {
	t     *T
	cmd   *exec.Cmd
	addr  string
	ready time.Duration // from the start of the process to ready
	done  chan struct{}
}

// serve starts the product on a data directory, with its standard settings but
// for the limit of requests, and waits until it is ready. It ends with the row.
func (t *T) serve(data, model string) *server {
	args := []string{"--json", "serve", "--addr", "127.0.0.1:0", "--rate", "off", "--chat-rate", "off"}
	if model != "" {
		args = append(args, "--model", "scripted", "--model-url", model, "--model-key", "key")
	}
	s := &server{t: t, cmd: exec.Command(t.binary, args...), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "REFOLD_DATA="+data)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.check(os.MkdirAll(data, 0o700))
	log, err := os.Create(filepath.Join(data, "stderr.log"))
	t.check(err)
	defer log.Close()
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	t.check(err)
	began := time.Now()
	t.check(s.cmd.Start())
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	go func() {
		_ = s.cmd.Wait() // killed
		close(s.done)
	}()
	var hello struct{ Addr string }
	if err != nil || json.Unmarshal(line, &hello) != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the server did not start: %s%s", line, tail(string(text)))
	}
	s.addr = hello.Addr
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for {
		res, err := client.Get("http://" + s.addr + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(began) > 10*time.Minute {
			t.Fatal("the server does not get ready")
		}
		time.Sleep(time.Millisecond)
	}
	s.ready = time.Since(began)
	return s
}

func (s *server) base() string { return "http://" + s.addr + "/api/v1" }

func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-s.done
}

// cpu is the processor time that the server has used, in milliseconds.
func (s *server) cpu() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	s.t.check(err)
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	return 10 * (number(f[11]) + number(f[12])) // ticks of 10 ms
}

// memory is what the server has in memory, in MiB.
func (s *server) memory() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	s.t.check(err)
	for line := range strings.Lines(string(raw)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	s.t.Fatal("no VmRSS in /proc")
	return 0
}

// metrics is what the server counts, as Prometheus reads it.
func (s *server) metrics() string {
	res, err := http.Get("http://" + s.addr + "/metrics")
	s.t.check(err)
	defer res.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	s.t.check(err)
	return b.String()
}

// raw is a client for one request again and again, which costs as little as can
// be: it shares the machine with the server.
type raw struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

func dial(addr, path string) (*raw, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &raw{conn, bufio.NewReaderSize(conn, 32<<10), []byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")}, nil
}

// get sends the request and gives the length of the answer.
func (c *raw) get() (int, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.Contains(status, []byte(" 200 ")) {
		return 0, fmt.Errorf("the answer is %s", status)
	}
	length, chunked := 0, false
	for {
		h, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(h) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(h, []byte(":"))
		switch string(bytes.ToLower(name)) {
		case "content-length":
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		case "transfer-encoding":
			chunked = true
		}
	}
	if !chunked {
		_, err := c.in.Discard(length)
		return length, err
	}
	for {
		size, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		if err != nil {
			return 0, err
		}
		if _, err := c.in.Discard(int(n) + 2); err != nil {
			return 0, err
		}
		length += int(n)
		if n == 0 {
			return length, nil
		}
	}
}
