package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"refold/handlers"
	"refold/tests/scripted"
)

// clientOf is a client of a scripted server, with a fake clock.
func clientOf(t *testing.T, s *scripted.Server, change ...func(*Config)) (*Client, *fakeClock) {
	t.Helper()
	clock := newFakeClock()
	cfg := Config{BaseURL: s.URL, Model: "m", Clock: clock, IdleTimeout: 5 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, clock
}

func ask(q string) handlers.ModelRequest {
	return handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: handlers.RoleUser, Content: q}}, Temperature: 0.7}
}

func typed(t *testing.T, err error) *handlers.ModelError {
	t.Helper()
	var e *handlers.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("error %v is not typed", err)
	}
	return e
}

func TestChat(t *testing.T) {
	s := scripted.New(t, scripted.Say(scripted.Reasoning("hm"), scripted.Text("Hel"), scripted.Text("lo"),
		scripted.Calls(scripted.Call{Name: "now", Args: `{"a":1}`, ID: "c1"}, scripted.Call{Name: "search", Args: `{}`, ID: "c2"}), scripted.Usage(3, 4, 7)))
	c, _ := clientOf(t, s)
	h := &heard{}
	reply, err := c.Chat(t.Context(), ask("q"), h.emit)
	sum := sha256.Sum256(s.Requests()[0].Body)
	want := handlers.ModelReply{RequestDigest: "sha256:" + hex.EncodeToString(sum[:]),
		Content: "Hello", Reasoning: "hm", Finish: "tool_calls", Model: "m", Usage: handlers.ModelUsage{Prompt: 3, Completion: 4, Total: 7},
		Calls: []handlers.ModelCall{{ID: "c1", Name: "now", Arguments: `{"a":1}`}, {ID: "c2", Name: "search", Arguments: "{}"}},
	}
	if err != nil || !reflect.DeepEqual(reply, want) {
		t.Errorf("got %+v, %v\nwant %+v", reply, err, want)
	}
	if !reflect.DeepEqual(h.calls, want.Calls) || h.content.String() != "Hello" || h.reasoning.String() != "hm" {
		t.Errorf("emitted %+v %q %q", h.calls, h.content.String(), h.reasoning.String())
	}
}

func TestP05_HTMLPage(t *testing.T) {
	page := "<!doctype html><title>Sign in</title><p>proxy</p>"
	html := map[string]string{"Content-Type": "text/html"}
	s := scripted.New(t, scripted.Respond(200, html, page), scripted.Respond(502, html, page))
	c, _ := clientOf(t, s)
	for _, want := range []handlers.ModelError{
		{Code: "bad_response", Status: 200},
		{Code: "server_error", Status: 502, Transient: true},
	} {
		_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
		e := typed(t, err)
		if e.Code != want.Code || e.Status != want.Status || e.Transient != want.Transient {
			t.Errorf("got %+v, want %+v", e, want)
		}
		for _, part := range []string{"text/html", "Sign in"} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("message lacks %q: %s", part, e.Message)
			}
		}
	}
}

func TestP06_EveryByteFlushed(t *testing.T) {
	body := delta(`{"content":"晴天"}`) + delta(`{"content":"😀"}`) + stopDone()
	s := scripted.New(t, scripted.Stream(scripted.Bytes(body)...))
	c, _ := clientOf(t, s)
	reply, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if err != nil || reply.Content != "晴天😀" {
		t.Errorf("got %q, %v", reply.Content, err)
	}
}

func TestP08_Stall(t *testing.T) {
	pings := make(chan struct{})
	s := scripted.New(t, scripted.Stream(
		scripted.Raw(delta(`{"content":"a"}`)), scripted.Wait(pings), scripted.Raw(": ping\n\n: ping\n\n"), scripted.Wait(pings), scripted.Raw(": ping\n\n"), scripted.Hang()))
	c, clock := clientOf(t, s)
	heard := make(chan string, 8)
	result := make(chan error)
	go func() {
		_, err := c.Chat(t.Context(), ask("q"), func(d handlers.ModelDelta) error { heard <- d.Content; return nil })
		result <- err
	}()
	<-heard
	clock.await(2) // the call's limit and the idle limit
	clock.advance(3 * time.Second)
	pings <- struct{}{} // bytes flow, no event
	pings <- struct{}{}
	clock.advance(3 * time.Second)
	e := typed(t, <-result)
	if e.Code != "stalled" || !e.Transient {
		t.Errorf("got %+v", e)
	}
	close(heard)
	for d := range heard {
		t.Errorf("%q was emitted after the end", d)
	}
	<-s.Requests()[0].Gone // the server sees the connection closed
	clock.await(0)
}

func TestP08_EventsKeepACallAlive(t *testing.T) {
	gate := make(chan struct{})
	s := scripted.New(t, scripted.Say(scripted.Text("a"), scripted.Gate(gate), scripted.Text("b")))
	c, clock := clientOf(t, s)
	reached := make(chan struct{}, 8)
	result := make(chan string)
	go func() {
		reply, err := c.Chat(t.Context(), ask("q"), func(handlers.ModelDelta) error { reached <- struct{}{}; return nil })
		if err != nil {
			t.Error(err)
		}
		result <- reply.Content
	}()
	<-reached
	clock.await(2)
	clock.advance(4 * time.Second)
	gate <- struct{}{}
	<-reached
	if got := <-result; got != "ab" {
		t.Errorf("got %q", got)
	}
}

func TestStallAfterFinishIsAnEnd(t *testing.T) {
	s := scripted.New(t, scripted.Stream(scripted.Raw(finishing(`{"content":"a"}`, "stop")), scripted.Hang()))
	c, clock := clientOf(t, s, func(c *Config) { c.IdleTimeout = time.Hour })
	reached := make(chan struct{})
	result := make(chan error)
	go func() {
		_, err := c.Chat(t.Context(), ask("q"), func(handlers.ModelDelta) error { close(reached); return nil })
		result <- err
	}()
	<-reached
	clock.await(2)
	clock.advance(finishGrace)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestCallTimeout(t *testing.T) {
	for name, step := range map[string]scripted.Step{
		"before the headers": scripted.Stream(scripted.Hang()),
		"in the stream":      scripted.Stream(scripted.Raw(delta(`{"content":"a"}`)), scripted.Hang()),
	} {
		s := scripted.New(t, step)
		c, clock := clientOf(t, s, func(c *Config) { c.CallTimeout = time.Minute; c.IdleTimeout = time.Hour })
		result := make(chan error)
		go func() {
			_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
			result <- err
		}()
		if _, err := s.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Minute)
		if e := typed(t, <-result); e.Code != "timeout" || !e.Transient || !strings.Contains(e.Message, "--model-timeout") {
			t.Errorf("%s: got %+v", name, e)
		}
		<-s.Requests()[0].Gone
	}
}

func TestCancelEndsTheCallAtOnce(t *testing.T) {
	s := scripted.New(t, scripted.Stream(scripted.Raw(delta(`{"content":"a"}`)+delta(`{"content":"b"}`)), scripted.Hang()), scripted.Stream(scripted.Hang()))
	c, clock := clientOf(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	reply, err := c.Chat(ctx, ask("q"), func(handlers.ModelDelta) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || reply.Content != "a" || n != 1 {
		t.Errorf("got %q after %d deltas, error %v", reply.Content, n, err)
	}
	var e *handlers.ModelError
	if errors.As(err, &e) {
		t.Errorf("a cancelled call is no failed attempt: %v", e)
	}
	<-s.Requests()[0].Gone
	clock.await(0)

	ctx, cancel = context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := c.Chat(ctx, ask("q"), (&heard{}).emit)
		result <- err
	}()
	if _, err := s.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-s.Requests()[1].Gone
}

func TestEmitErrorEndsTheCall(t *testing.T) {
	s := scripted.New(t, scripted.Stream(scripted.Raw(delta(`{"content":"a <th"}`)), scripted.Hang()))
	c, _ := clientOf(t, s)
	full := errors.New("full")
	n := 0
	_, err := c.Chat(t.Context(), ask("q"), func(handlers.ModelDelta) error { n++; return full })
	if err != full || n != 1 {
		t.Errorf("got %v after %d deltas", err, n)
	}
	<-s.Requests()[0].Gone
}

func TestP36_ResetAfterText(t *testing.T) {
	s := scripted.New(t, scripted.Stream(scripted.Raw(delta(`{"content":"The answer is"}`)), scripted.Reset()),
		scripted.Say(scripted.Text("The answer is 42.")))
	c, _ := clientOf(t, s)
	reply, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if e := typed(t, err); !e.Transient || (e.Code != "connection" && e.Code != "incomplete") || len(reply.Calls) > 0 {
		t.Errorf("got %+v, %+v", reply, e)
	}
	reply, err = c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if err != nil || reply.Content != "The answer is 42." {
		t.Errorf("nothing of one attempt may be in the next: %q, %v", reply.Content, err)
	}
}

func TestCutOff_SaysWhatToDo(t *testing.T) {
	s := scripted.New(t, scripted.Stream(scripted.Raw(delta(`{"content":"The answer is"}`))))
	c, _ := clientOf(t, s)
	_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if e := typed(t, err); e.Code != "incomplete" || !strings.Contains(e.Message, "look at its log") {
		t.Errorf("got %+v", e)
	}
}

func TestNobodyListens(t *testing.T) {
	s := scripted.New(t)
	c, _ := clientOf(t, s)
	s.Close()
	_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if e := typed(t, err); e.Code != "connection" || !e.Transient {
		t.Errorf("got %+v", e)
	}
}

func TestP37_RetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT", time.Minute},
		{"Retry-After", "Wed, 21 Oct 2026 07:00:00 GMT", 0},
		{"Retry-After", "86400", MaxRetryAfter},
		{"Retry-After", "1e300", MaxRetryAfter},
		{"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X-Other", "1", 0},
	} {
		s := scripted.New(t, scripted.Respond(429, map[string]string{c.name: c.value, "Content-Type": "application/json"}, `{"error":{"message":"slow down"}}`))
		client, _ := clientOf(t, s)
		_, err := client.Chat(t.Context(), ask("q"), (&heard{}).emit)
		e := typed(t, err)
		day := c.value == "86400" && !strings.Contains(e.Message, "it asked to wait 24h0m0s")
		if e.Code != "rate_limited" || !e.Transient || e.RetryAfter != c.want || !strings.Contains(e.Message, "slow down") || day {
			t.Errorf("%s %q: got %+v, want %v", c.name, c.value, e, c.want)
		}
	}
}

func TestStatusClasses(t *testing.T) {
	for _, c := range []struct {
		status    int
		body      string
		code      string
		transient bool
	}{
		{400, `{"error":{"message":"bad"}}`, "bad_request", false},
		{401, `{"error":{"message":"who"}}`, "unauthorized", false},
		{402, `{"error":{"message":"Insufficient Balance"}}`, "unauthorized", false},
		{403, ``, "unauthorized", false},
		{404, `{"error":"model 'x' not found"}`, "not_found", false},
		{408, ``, "timeout", true},
		{409, ``, "server_error", true},
		{422, `{"detail":[{"msg":"field required"}]}`, "bad_request", false},
		{425, ``, "server_error", true},
		{429, `{"error":{"message":"context length tokens per minute"}}`, "rate_limited", true},
		{500, `boom`, "server_error", true},
		{502, ``, "server_error", true},
		{503, ``, "overloaded", true},
		{504, ``, "timeout", true},
		{529, ``, "overloaded", true},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`, "context_overflow", false},
		{400, `{"object":"error","message":"... reduce the length of the messages or completion.","code":400}`, "context_overflow", false},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, "context_overflow", false},
		{500, `{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}`, "context_overflow", false},
		{400, `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}]`, "context_overflow", false},
		{413, ``, "context_overflow", false},
		{304, ``, "bad_response", false},
	} {
		s := scripted.New(t, scripted.Respond(c.status, map[string]string{"Content-Type": "application/json"}, c.body))
		client, _ := clientOf(t, s)
		_, err := client.Chat(t.Context(), ask("q"), (&heard{}).emit)
		if e := typed(t, err); e.Code != c.code || e.Transient != c.transient || e.Status != c.status || !strings.Contains(e.Message, fmt.Sprintf("status %d", c.status)) ||
			strings.Contains(e.Message, "failed with") != (c.status >= 500) {
			t.Errorf("%d %s: got %+v", c.status, c.body, e)
		}
	}
}

func TestKeyIsNeverInAMessage(t *testing.T) {
	const key = "s3cr3t-key-0815"
	withKey := func(c *Config) { c.APIKey = " " + key + "\n" }
	s := scripted.New(t,
		scripted.Respond(401, nil, `{"error":{"message":"Incorrect API key provided: `+key+`, or sk-abcdefgh12345678."}}`),
		scripted.Respond(200, map[string]string{"Content-Type": "text/html"}, `<p>Authorization: Bearer `+key+` api_key=abcdefgh</p>`),
		scripted.Stream(scripted.Data(`{"error":{"message":"bad key `+key+`"}}`)))
	c, _ := clientOf(t, s, withKey)
	for range 3 {
		_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
		for _, secret := range []string{key, "abcdefgh"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the key is in %q", err)
			}
		}
	}
	if got := s.Requests()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("sent %q", got)
	}
	long := strings.Repeat("x", 5000)
	s.Push(scripted.Fail(400, long))
	_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if n := len(err.Error()); n > 500 {
		t.Errorf("a message of %d bytes", n)
	}
}

func TestModelName(t *testing.T) {
	unnamed := func(c *Config) { c.Model = "" }
	s := scripted.New(t)
	s.Models("first", "second")
	s.Always(scripted.Say(scripted.Text("ok")))
	c, _ := clientOf(t, s, unnamed)
	if c.Name() != "" {
		t.Errorf("name %q before the first use", c.Name())
	}
	for range 2 {
		if _, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Requests()[1].Model; got != "first" || c.Name() != "first" {
		t.Errorf("asked for %q, name %q", got, c.Name())
	}
	s.Models()
	c, _ = clientOf(t, s, unnamed)
	_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if e := typed(t, err); e.Code != "not_configured" || e.Transient || !strings.Contains(e.Message, "REFOLD_MODEL") {
		t.Errorf("got %+v", e)
	}
	s.Close()
	_, err = c.Chat(t.Context(), ask("q"), (&heard{}).emit)
	if e := typed(t, err); e.Code != "connection" || !e.Transient {
		t.Errorf("got %+v", e)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	s := scripted.New(t)
	s.Always(func(r scripted.Request) scripted.Reply {
		return scripted.Say(scripted.Text(r.Last("user")))(r)
	})
	c, _ := clientOf(t, s, func(c *Config) { c.Model = "" })
	results := make(chan string)
	for i := range 20 {
		go func() {
			q := strings.Repeat("x", i+1)
			reply, err := c.Chat(t.Context(), ask(q), (&heard{}).emit)
			if err != nil || reply.Content != q {
				t.Errorf("asked %q, got %q, %v", q, reply.Content, err)
			}
			results <- q
		}()
	}
	for range 20 {
		<-results
	}
}

func TestTransportWithoutContextIsClosed(t *testing.T) {
	body := &stuckBody{closed: make(chan struct{})}
	clock := newFakeClock()
	c, err := New(Config{BaseURL: "http://model.test/v1", Model: "m", Clock: clock, HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := c.Chat(t.Context(), ask("q"), (&heard{}).emit)
		result <- err
	}()
	clock.await(2)
	clock.advance(DefaultIdleTimeout)
	if e := typed(t, <-result); e.Code != "stalled" {
		t.Errorf("got %+v", e)
	}
}

// stuckBody gives nothing until it is closed.
type stuckBody struct{ closed chan struct{} }

func (b *stuckBody) Read([]byte) (int, error) {
	<-b.closed
	return 0, errors.New("read of a closed body")
}

func (b *stuckBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}
