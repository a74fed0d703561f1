package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"refold/infra/app"
)

// client talks to a Refold server over its API.
type client struct {
	base   string
	key    string
	tenant int64
	own    bool // the server is this process
}

// link is a client and what it may have started: app is the server in this
// process, nil if another one was found.
type link struct {
	*client
	app     *app.App
	command *app.Endpoint // the other one, if it is a command line too
	close   func() error
	yielded atomic.Bool // this process gives the record up to a server that starts
}

// connect finds the running server of the data directory, or starts one in this
// process on a port of its own.
func (e *env) connect(c app.Config) (*link, error) {
	if l := e.find(c); l != nil {
		return l, nil
	}
	return e.start(c, false)
}

// find gives the running server of the data directory, nil if there is none.
func (e *env) find(c app.Config) *link {
	found, ok := app.FindServer(e.ctx, c.Data)
	if !ok {
		return nil
	}
	l := &link{client: &client{base: "http://" + found.Addr, key: found.LocalKey, tenant: e.cli.Tenant}, close: func() error { return nil }}
	if found.Command {
		l.command = &found
	}
	return l
}

// start opens the record in this process. If it yields, it gives the record up
// to a server that wants to start.
func (e *env) start(c app.Config, yields bool) (*link, error) {
	c.Command = true
	a, err := app.Open(e.ctx, c)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on a local port: %w", err), a.Close())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(e.ctx))
	done := make(chan error, 1)
	k := &link{client: &client{base: "http://" + l.Addr().String(), key: a.LocalKey, tenant: e.cli.Tenant, own: true}, app: a}
	k.close = sync.OnceValue(func() error {
		// A connection that was never used would look busy to the server that ends.
		http.DefaultClient.CloseIdleConnections()
		stop()
		return errors.Join(<-done, a.Close())
	})
	a.Yields = func() bool {
		if yields && !k.yielded.Swap(true) {
			go func() { _ = k.close() }() // who held the link hears it
		}
		return yields
	}
	go func() { done <- a.Serve(ctx, l, true) }()
	return k, nil
}

// apiError is an error answer of the server.
type apiError struct {
	Status  int
	Message string
	Details map[string]any
	Same    string // the document that is there already, "" = it is another error
	State   string // parse_status of that document
}

func (e *apiError) Error() string { return e.Message }

func (c *client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.answer(req)
}

// refused is the error of an answer. A server that is this process has no log.
func (c *client) refused(status int, raw []byte) error {
	err := parseError(status, raw)
	var said *apiError
	if c.own && errors.As(err, &said) {
		if what, _, logged := strings.Cut(said.Message, "; the server's log has it"); logged {
			said.Message = what + "; do the same again beside refold serve: its log says why"
		}
	}
	return err
}

func parseError(status int, raw []byte) error {
	var nested struct {
		Error struct {
			Message string         `json:"message"`
			Details map[string]any `json:"details"`
		} `json:"error"`
	}
	var bare struct {
		Error string `json:"error"`
	}
	if same, message := sameAs(status, raw); same.ID != "" {
		return &apiError{Status: status, Message: message, Same: same.ID, State: same.Status}
	}
	switch {
	case json.Unmarshal(raw, &nested) == nil && nested.Error.Message != "":
		return &apiError{Status: status, Message: spoken(nested.Error.Message), Details: nested.Error.Details}
	case json.Unmarshal(raw, &bare) == nil && bare.Error != "":
		return &apiError{Status: status, Message: spoken(bare.Error)}
	}
	return &apiError{Status: status, Message: fmt.Sprintf("the server answered HTTP %d", status)}
}

// lookAt is where an error of the API says to look, and where a person at a
// command line does.
var lookAt = regexp.MustCompile(`; [^;]*?(?:GET|POST|PUT|DELETE) (/\S+)`)

// spoken is an error of the API in the words of the command line: routes are
// commands.
func spoken(message string) string {
	return lookAt.ReplaceAllStringFunc(message, func(found string) string {
		route := lookAt.FindStringSubmatch(found)[1]
		switch {
		case strings.HasSuffix(route, "/api-keys"):
			return "; see: refold keys"
		case strings.HasPrefix(route, "/api/v1/tenants"):
			return "; see: refold tenants"
		case strings.HasPrefix(route, "/api/v1/sessions"):
			return "; leave --session out to begin one"
		case strings.HasPrefix(route, "/api/v1/agents"):
			return "; leave --agent out for the built-in one"
		case strings.HasPrefix(route, "/api/v1/knowledge-bases"):
			return "; see: refold kb"
		case strings.HasPrefix(route, "/api/v1/views"):
			return "; see: refold rebuild --help"
		}
		return ""
	})
}

// call sends a request and decodes the data of the answer.
func (c *client) call(ctx context.Context, method, path string, in, data any) error {
	_, err := c.noted(ctx, method, path, in, data)
	return err
}

// noted does what call does, and gives the notes that stand beside the data.
func (c *client) noted(ctx context.Context, method, path string, in, data any) ([]string, error) {
	res, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if data == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return nil, err
	}
	answer := struct {
		Data  any      `json:"data"`
		Notes []string `json:"notes"`
	}{Data: data}
	err = json.NewDecoder(res.Body).Decode(&answer)
	return answer.Notes, err
}

// problems are what keeps the server from being ready.
func (c *client) problems(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var body struct {
		Problems map[string]string `json:"problems"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&body); err != nil {
		return nil, err
	}
	var out []string
	for what, why := range body.Problems {
		out = append(out, what+": "+why)
	}
	return out, nil
}

// frame is a frame of the SSE feed as the command line reads it.
type frame struct {
	id      string
	Type    string         `json:"response_type"`
	Content string         `json:"content"`
	Done    bool           `json:"done"`
	Data    map[string]any `json:"data"`
	Usage   map[string]int `json:"usage"`
	raw     []byte
}

func (f frame) text(key string) string {
	s, _ := f.Data[key].(string)
	return s
}

// terminal tells whether nothing follows.
func (f frame) terminal() bool {
	return f.Done && (f.Type == "complete" || f.Type == "stop" || f.Type == "error")
}

// readFrames calls fn for each frame until the stream ends.
func readFrames(r io.Reader, fn func(frame) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	id := ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if v, ok := strings.CutPrefix(line, "id:"); ok {
			id = strings.TrimSpace(v)
		}
		raw, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		f := frame{id: id, raw: []byte(strings.TrimSpace(raw))}
		if err := json.Unmarshal(f.raw, &f); err != nil {
			return fmt.Errorf("the server sent a frame that is no JSON: %w", err)
		}
		if err := fn(f); err != nil {
			return err
		}
	}
}
