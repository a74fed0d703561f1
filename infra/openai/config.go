package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	goopenai "github.com/sashabaranov/go-openai"
)

// Ways to send a model's earlier reasoning back to it. Providers differ: some
// refuse a request without it, some refuse one with it.
const (
	// ReasoningEcho sends the reasoning of every assistant message, and an empty
	// field on those with calls that have none.
	ReasoningEcho = "echo"
	// ReasoningWithinTurn sends it for the messages after the last user message
	// only. The default.
	ReasoningWithinTurn = "echo-within-turn"
	// ReasoningDrop never sends it.
	ReasoningDrop = "drop"
)

// Ways to tell a server whether to think. There is no common field for it.
const (
	// ThinkingEnable sends "enable_thinking": true or false (Qwen's own service).
	ThinkingEnable = "enable_thinking"
	// ThinkingTemplate sends "chat_template_kwargs" with "enable_thinking" and
	// "thinking" (vLLM, SGLang, llama.cpp with Qwen or DeepSeek templates).
	ThinkingTemplate = "chat_template_kwargs"
	// ThinkingType sends "thinking": {"type": "enabled" or "disabled"} (DeepSeek,
	// GLM, Kimi, Doubao).
	ThinkingType = "thinking"
	// ThinkingEffort sends "reasoning_effort": "medium" or "none" (OpenAI, Ollama).
	ThinkingEffort = "reasoning_effort"
)

// Limits and defaults of a client.
const (
	DefaultCallTimeout = 120 * time.Second
	DefaultIdleTimeout = 60 * time.Second
	MaxLine            = 16 << 20        // bytes of one line or one event of a stream
	MaxReply           = 8 << 20         // bytes of content, reasoning and arguments of a reply
	MaxCalls           = 128             // tool calls of a reply
	MaxRetryAfter      = 5 * time.Minute // longer waits asked for are cut to this
)

// maxIdle is how many connections to a server are kept for the next calls.
const maxIdle = 128

// Config says which server to talk to and how. The zero value of every field
// has a meaning; only what a server needs must be set.
type Config struct {
	BaseURL string // up to and including /v1; "" is OpenAI's own
	APIKey  string // sent as a bearer token; "" sends none
	Model   string // "" is the first of the server's /models, asked on first use

	CallTimeout time.Duration // of one whole call; 0 is DefaultCallTimeout
	IdleTimeout time.Duration // between two data events; 0 is DefaultIdleTimeout

	Reasoning      string // one of the Reasoning constants; "" is ReasoningWithinTurn
	ReasoningField string // name of that field in messages; "" is "reasoning_content", else "reasoning"
	NullContent    bool   // content is null, not "", on assistant messages with calls and no text
	MaxTokensField string // "max_tokens" (also "") or "max_completion_tokens"
	ThinkingParam  string // one of the Thinking constants; "" sends nothing

	// ExtraBody adds top-level fields to each request. They replace what the
	// client would send; a nil value takes the field out (some models refuse
	// "temperature", some servers "stream_options"). model, messages, tools,
	// stream and n cannot be set.
	ExtraBody map[string]any

	HTTPClient *http.Client // nil is one of the client's own, without a timeout; of redirects see ownServer
	Clock      Clock        // nil is the real one
}

// Clock is the time as a client sees it; tests bring their own.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f, from any goroutine, once d has passed. stop tells
	// whether it came in time to prevent that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// New makes a client. It sends nothing: a wrong key or an unreachable server
// shows in the first call. The error names the field that cannot be used.
func New(c Config) (*Client, error) {
	if c.BaseURL == "" {
		c.BaseURL = goopenai.DefaultConfig("").BaseURL
	}
	base, err := url.Parse(strings.TrimSpace(c.BaseURL))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("model server address: want http(s)://host/path, such as http://127.0.0.1:11434/v1")
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/chat/completions")
	base.RawPath = ""
	c.APIKey = strings.TrimSpace(c.APIKey)
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("model server key: has control characters in it")
	}
	for _, f := range []struct {
		name    string
		value   *string
		choices []string // the first stands for ""
	}{
		{"reasoning", &c.Reasoning, []string{ReasoningWithinTurn, ReasoningEcho, ReasoningDrop}},
		{"reasoning field", &c.ReasoningField, []string{"reasoning_content", "reasoning"}},
		{"max tokens field", &c.MaxTokensField, []string{"max_tokens", "max_completion_tokens"}},
		{"thinking parameter", &c.ThinkingParam, []string{"", ThinkingEnable, ThinkingTemplate, ThinkingType, ThinkingEffort}},
	} {
		if *f.value == "" {
			*f.value = f.choices[0]
		}
		if !slices.Contains(f.choices, *f.value) {
			return nil, fmt.Errorf("%s: %q is none of %s", f.name, *f.value, strings.Trim(strings.Join(f.choices, ", "), ", "))
		}
	}
	for _, reserved := range []string{"model", "messages", "tools", "stream", "n"} {
		if _, ok := c.ExtraBody[reserved]; ok {
			return nil, fmt.Errorf("extra body: %q cannot be set", reserved)
		}
	}
	if _, err := json.Marshal(c.ExtraBody); err != nil {
		return nil, fmt.Errorf("extra body: %w", err)
	}
	c.ExtraBody = maps.Clone(c.ExtraBody)
	if c.CallTimeout <= 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.HTTPClient == nil {
		// As many calls as are made at a time keep their connections, or each round
		// would begin with a handshake.
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, maxIdle
		c.HTTPClient = &http.Client{Transport: t}
	}
	own := *c.HTTPClient
	own.CheckRedirect = ownServer
	c.HTTPClient = &own
	if c.Clock == nil {
		c.Clock = realClock{}
	}
	client := &Client{cfg: c, base: base}
	client.setModel(c.Model)
	return client, nil
}
