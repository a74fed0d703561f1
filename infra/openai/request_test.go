package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scripted"
)

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.Model = "m"
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func bodyOf(t *testing.T, cfg Config, req handlers.ModelRequest) string {
	t.Helper()
	body, err := newClient(t, cfg).body("m", req)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestRequestBody(t *testing.T) {
	req := handlers.ModelRequest{
		Messages: []handlers.ModelMessage{
			{Role: "system", Content: "be brief"},
			{Role: "user", Content: "<b>?", Images: []string{"data:image/png;base64,AA=="}},
			{Role: "assistant", Calls: []handlers.ModelCall{
				{ID: "a", Name: "now", Arguments: `{"path":"a.md","content":"line`},
				{ID: "b", Name: "now", Arguments: `{"x": "<1>"}`, Metadata: json.RawMessage(`{"extra_content":{"s":1},"function":{"sig":2},"id":"forged"}`)},
				{ID: "c", Name: "now", Arguments: `[1]`},
				{ID: "d", Name: "now", Arguments: `null`},
			}},
			{Role: "tool", CallID: "a", Name: "now", Content: ""},
		},
		Tools:     []tool.Definition{{Name: "z", Description: "last & first", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "a"}},
		MaxTokens: 9, Parallel: true,
	}
	want := `{"max_tokens":9,"messages":[{"role":"system","content":"be brief"},` +
		`{"role":"user","content":[{"type":"text","text":"<b>?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},` +
		`{"role":"assistant","content":"","tool_calls":[` +
		`{"function":{"arguments":"{}","name":"now"},"id":"a","type":"function"},` +
		`{"extra_content":{"s":1},"function":{"arguments":"{\"x\": \"<1>\"}","name":"now","sig":2},"id":"b","type":"function"},` +
		`{"function":{"arguments":"{}","name":"now"},"id":"c","type":"function"},` +
		`{"function":{"arguments":"{}","name":"now"},"id":"d","type":"function"}]},` +
		`{"role":"tool","content":"","tool_call_id":"a"}],"model":"m","parallel_tool_calls":true,"stream":true,"stream_options":{"include_usage":true},` +
		`"temperature":0,"tools":[{"function":{"name":"z","description":"last \u0026 first","parameters":{"type":"object"}},"type":"function"},` +
		`{"function":{"name":"a","parameters":{"type":"object","properties":{}}},"type":"function"}]}`
	for range 20 {
		if got := bodyOf(t, Config{}, req); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestRequestOptions(t *testing.T) {
	req := handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: "user", Content: "q"}}, MaxTokens: 5, Temperature: 0.25, Thinking: true, Parallel: true}
	for _, c := range []struct {
		cfg          Config
		has, has_not string
	}{
		{Config{}, `"max_tokens":5`, "parallel_tool_calls"},
		{Config{}, `"temperature":0.25`, "think"},
		{Config{MaxTokensField: "max_completion_tokens"}, `"max_completion_tokens":5`, `"max_tokens"`},
		{Config{ThinkingParam: ThinkingEnable}, `"enable_thinking":true`, "kwargs"},
		{Config{ThinkingParam: ThinkingTemplate}, `"chat_template_kwargs":{"enable_thinking":true,"thinking":true}`, "effort"},
		{Config{ThinkingParam: ThinkingType}, `"thinking":{"type":"enabled"}`, "enable_thinking"},
		{Config{ThinkingParam: ThinkingEffort}, `"reasoning_effort":"medium"`, "thinking"},
		{Config{ExtraBody: map[string]any{"temperature": nil, "stream_options": nil, "seed": 7}}, `"seed":7`, "temperature"},
		{Config{ExtraBody: map[string]any{"stream_options": nil}}, `"temperature"`, "stream_options"},
	} {
		got := bodyOf(t, c.cfg, req)
		if !strings.Contains(got, c.has) || strings.Contains(got, c.has_not) {
			t.Errorf("%+v: %s", c.cfg, got)
		}
	}
	req.Thinking = false
	for _, c := range []struct{ param, has string }{
		{ThinkingEnable, `"enable_thinking":false`}, {ThinkingTemplate, `"enable_thinking":false`},
		{ThinkingType, `"disabled"`}, {ThinkingEffort, `"none"`},
	} {
		if got := bodyOf(t, Config{ThinkingParam: c.param}, req); !strings.Contains(got, c.has) {
			t.Errorf("%s: %s", c.param, got)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []Config{
		{BaseURL: "localhost:11434"}, {BaseURL: "ftp://x/v1"}, {BaseURL: "http://"}, {BaseURL: "http://%zz"},
		{Reasoning: "maybe"}, {MaxTokensField: "tokens"}, {ThinkingParam: "yes"}, {ReasoningField: "thoughts"},
		{ExtraBody: map[string]any{"messages": nil}}, {ExtraBody: map[string]any{"x": func() {}}}, {APIKey: "a\nb"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	for _, base := range []string{"http://h/v1", "http://h/v1/", "http://h/v1/chat/completions", " http://h/v1// "} {
		c := newClient(t, Config{BaseURL: base})
		if got := c.base.JoinPath("models").String(); got != "http://h/v1/models" {
			t.Errorf("%q becomes %q", base, got)
		}
	}
}

// threeRounds plays a turn of three rounds, with history before it, against a
// provider that is strict in its own way.
func threeRounds(t *testing.T, rules scripted.Rules, cfg Config) error {
	t.Helper()
	rules.Tolerant = true
	s := scripted.New(t)
	s.Play(rules)
	for i := range 2 {
		s.Push(scripted.Say(scripted.Reasoning("need the tool"), scripted.Calls(scripted.Call{Name: "now", Args: "{}", ID: fmt.Sprint("c", i)})))
	}
	s.Push(scripted.Say(scripted.Reasoning("now I know"), scripted.Text("It is noon.")))
	cfg.BaseURL = s.URL
	c := newClient(t, cfg)
	req := handlers.ModelRequest{Tools: []tool.Definition{{Name: "now"}}, Messages: []handlers.ModelMessage{{Role: "user", Content: "q"}}}
	for {
		reply, err := c.Chat(t.Context(), req, (&heard{}).emit)
		if err != nil {
			return err
		}
		if len(reply.Calls) == 0 {
			if reply.Content != "It is noon." || len(s.Requests()) != 3 {
				t.Errorf("ended with %+v after %d requests", reply, len(s.Requests()))
			}
			return nil
		}
		req.Messages = append(req.Messages,
			handlers.ModelMessage{Role: "assistant", Content: reply.Content, Reasoning: reply.Reasoning, Calls: reply.Calls},
			handlers.ModelMessage{Role: "tool", CallID: reply.Calls[0].ID, Name: "now", Content: "12:00"})
	}
}

func TestP30_ReasoningSentBack(t *testing.T) {
	wants, refuses := scripted.Rules{RequireReasoning: true}, scripted.Rules{RefuseReasoning: true}
	for _, mode := range []string{ReasoningEcho, ReasoningWithinTurn, ""} {
		if err := threeRounds(t, wants, Config{Reasoning: mode}); err != nil {
			t.Errorf("%s with a provider that wants it: %v", mode, err)
		}
	}
	if err := threeRounds(t, refuses, Config{Reasoning: ReasoningDrop}); err != nil {
		t.Errorf("drop with a provider that refuses it: %v", err)
	}
	if err := threeRounds(t, wants, Config{Reasoning: ReasoningDrop}); codeOf(err) != "bad_request" {
		t.Errorf("the strict provider was not strict: %v", err)
	}
	req := handlers.ModelRequest{Messages: []handlers.ModelMessage{
		{Role: "user", Content: "1"}, {Role: "assistant", Content: "a", Reasoning: "old"},
		{Role: "user", Content: "2"}, {Role: "assistant", Calls: []handlers.ModelCall{{ID: "c", Name: "now"}}, Reasoning: "new"},
		{Role: "tool", CallID: "c", Content: "x"}, {Role: "assistant", Calls: []handlers.ModelCall{{ID: "d", Name: "now"}}},
	}}
	for _, c := range []struct {
		cfg   Config
		field string
		n     int
		old   bool
	}{
		{Config{Reasoning: ReasoningEcho}, `"reasoning_content"`, 3, true},
		{Config{Reasoning: ReasoningWithinTurn}, `"reasoning_content"`, 1, false},
		{Config{Reasoning: ReasoningDrop}, `"reasoning_content"`, 0, false},
		{Config{Reasoning: ReasoningEcho, ReasoningField: "reasoning"}, `"reasoning"`, 3, true},
	} {
		got := bodyOf(t, c.cfg, req)
		if strings.Count(got, c.field) != c.n || strings.Contains(got, `"old"`) != c.old {
			t.Errorf("%+v: %s", c.cfg, got)
		}
	}
}

func TestP34_ContentBesideCalls(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules scripted.Rules
		null  bool
	}{
		{"refuses null", scripted.Rules{RefuseNull: true}, false},
		{"refuses empty", scripted.Rules{RefuseEmpty: true}, true},
		{"refuses a missing key, with null", scripted.Rules{}, true},
		{"refuses a missing key", scripted.Rules{}, false},
	} {
		if err := threeRounds(t, c.rules, Config{NullContent: c.null}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := threeRounds(t, scripted.Rules{RefuseNull: true}, Config{NullContent: true}); codeOf(err) != "bad_request" {
		t.Errorf("the strict provider was not strict: %v", err)
	}
	req := handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: "user", Content: ""}, {Role: "assistant", Content: ""}}}
	if got := bodyOf(t, Config{NullContent: true}, req); strings.Contains(got, "null") {
		t.Errorf("null without calls: %s", got)
	}
}

// What came with a call goes back with it, and survives another round.
func TestMetadataRoundTrip(t *testing.T) {
	first := nowDelta(`{"index":0,"id":"c1","extra_content":{"google":{"thought_signature":"a+/="}},"function":{"name":"now","arguments":"{}"}}`)
	reply, _, err := replay(t, strings.NewReader(finishing(first, "tool_calls")+done))
	if err != nil {
		t.Fatal(err)
	}
	body := bodyOf(t, Config{}, handlers.ModelRequest{Messages: []handlers.ModelMessage{{Role: "assistant", Calls: reply.Calls}}})
	if !bytes.Contains([]byte(body), []byte(`"extra_content":{"google":{"thought_signature":"a+/="}}`)) {
		t.Errorf("lost: %s", body)
	}
}

// Requests are written by hand where encoding/json would write the same.
func TestBody_AsEncodingJSON(t *testing.T) {
	texts := []string{"", "plain", "a\n\t\r\"b\" \\ / <c>&", "你好 é 😀", "\u2028\u2029", "nul\x00 bell\x07 \b\f\x7f", "broken \xff\xc3", "\ufffd", "\n\xff"}
	for _, text := range texts {
		want, err := encode(text)
		if got := appendText([]byte("x"), text); err != nil || string(got) != "x"+string(want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		for _, m := range []message{{Role: "user", Content: text}, {Role: "tool", Content: text, ToolCallID: text},
			{Role: "assistant", Content: text, ReasoningContent: &text, ToolCalls: []json.RawMessage{[]byte(`{"a":1}`), []byte(`{}`)}}, {Role: "assistant", Content: nil, Reasoning: &text}} {
			want, err := encode(m)
			if got, gotErr := m.encode(); err != nil || gotErr != nil || string(got) != string(want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		call := handlers.ModelCall{ID: text, Name: text, Arguments: `{"x":"` + "<y>" + `"}`}
		plain, _ := plainCall(call)
		call.Metadata = json.RawMessage(`{}`)
		if long, err := wireCall(call); err != nil || string(plain) != string(long) {
			t.Errorf("%s, want %s", plain, long)
		}
	}
}
