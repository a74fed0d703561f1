package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/web"
)

// Config is everything that a Refold process is started with. The zero value
// plus Data is a working configuration: no service, no key.
type Config struct {
	Data   string // directory of the database; made if missing
	Store  string // "" = a file in Data; postgres://... = a database that several processes may share
	Addr   string // to listen on, "" = 127.0.0.1:8080
	APIKey string // must be in every request; needed to listen beyond this machine
	// Roots are folders that requests may name as workspace, with all below them:
	// "DIR" for tenant 1, "N=DIR" for another.
	Roots    []string
	Models   []ModelConfig // the first is the default; empty = the built-in extractive model
	Fallback []string      // names of models that the built-in agent moves on to
	Default  string        // name of the default model, "" = the first
	VLM      string        // name of the model that describes images to models without vision, "" = none
	// MaxUpload is the largest file for a knowledge base, in bytes; 0 =
	// api.DefaultUpload.
	MaxUpload int64
	// AllowNet are ranges (CIDR, or CIDR:PORT) that addresses which come from people
	// or models may lie in although they are not public.
	AllowNet []string
	// Embeddings make vectors of texts, Rerankers judge passages; the first is the
	// default. Without any, search is by words.
	Embeddings, Rerankers []VectorModel
	// WebSearch are the search engines; the first is asked, the next if it fails. Without one neither
	// web_search nor web_fetch is offered.
	WebSearch []WebSearchConfig
	// DataBinary is the program that analyses table files; "" = refold-data beside
	// the running one. Without it data_analysis is not offered.
	DataBinary string

	// Rate and ChatRate are what one key may ask: "20/s", "600/m", "off"; "" =
	// DefaultRate and DefaultChatRate.
	Rate, ChatRate string

	// ContextTokens is the window of models that name none of their own, in
	// tokens of a request and its reply; 0 = 200,000.
	ContextTokens int

	Temperature float64       // of the built-in agent; negative = its own
	RunTimeout  time.Duration // deadline of a whole run, 0 = none
	ModelTime   time.Duration // deadline of one model call, 0 = 120 s
	// ApprovalTimeout is how long a call waits for a person; 0 = 10 minutes.
	ApprovalTimeout time.Duration
	// Gone is how long a process on a shared record may be silent before others
	// take its work over; 0 = 20 s. All of them must agree on it.
	Gone time.Duration
	// CollectGrace is how long content must have been unused before it is removed,
	// and CollectEvery how often that is looked after; 0 = 24 h and 1 h.
	CollectGrace, CollectEvery time.Duration
	// ReadTimeout is how long a client may take to send a request; 0 = 60 s.
	ReadTimeout time.Duration

	Log     *slog.Logger // nil = discard
	Version string
	Clock   handlers.Clock // nil = the real one
	Tools   []tool.Tool    // more tools, registered after the built-in ones
	Sample  bool           // a fresh record begins with a sample knowledge base
	Idle    bool           // serve and record, but do not move runs
	Command bool           // a command line, which serves while it runs
	Own     bool           // move only runs whose message this process has taken; see App.Take
}

// ModelConfig names a model on an OpenAI-compatible server.
type ModelConfig struct {
	Name        string         `json:"name"`     // as agents and requests name it
	BaseURL     string         `json:"base_url"` // up to /v1; "" = OpenAI's own
	APIKey      string         `json:"api_key"`
	APIKeyEnv   string         `json:"api_key_env"` // environment variable that holds the key
	Model       string         `json:"model"`       // as the server names it; "" = its first
	TimeoutSec  int            `json:"timeout_seconds"`
	IdleSec     int            `json:"idle_timeout_seconds"`
	Reasoning   string         `json:"reasoning"` // echo, echo-within-turn or drop
	Thinking    string         `json:"thinking_param"`
	MaxTokens   string         `json:"max_tokens_field"`
	NullContent bool           `json:"null_content"`
	Extra       map[string]any `json:"extra_body"`
	Vision      bool           `json:"vision"` // it can be shown images
	// Endpoints stand in for each other: more keys, or more servers of the same
	// model. base_url and api_key above are the first of them.
	Endpoints []ModelEndpoint `json:"endpoints"`
	// ContextTokens is the model's window; 0 = that of the process.
	ContextTokens   int `json:"context_tokens"`
	TokensPerMinute int `json:"tokens_per_minute"` // respected before it is broken; 0 = no limit
}

// WebSearchConfig names a search engine.
type WebSearchConfig struct {
	Name      string `json:"name"`     // for people; "" = the provider
	Provider  string `json:"provider"` // searxng, tavily, brave, google, exa, ollama
	BaseURL   string `json:"base_url"` // needed by searxng; "" = the provider's own
	APIKey    string `json:"api_key"`
	APIKeyEnv string `json:"api_key_env"` // environment variable that holds the key
	EngineID  string `json:"engine_id"`   // of google: the search engine's id
}

// ModelEndpoint is another place where a model can be asked. Empty fields are those
// of the model.
type ModelEndpoint struct {
	BaseURL   string `json:"base_url"`
	APIKey    string `json:"api_key"`
	APIKeyEnv string `json:"api_key_env"`
}

// windows are the windows of the models that name one.
func (c Config) windows() map[string]int {
	out := map[string]int{}
	for i, m := range c.Models {
		if m.Name == "" {
			m.Name = fmt.Sprintf("model-%d", i+1)
		}
		out[m.Name] = m.ContextTokens
	}
	return out
}

// maxConfigFile bounds a configuration file, in bytes.
const maxConfigFile = 1 << 20

// file is the JSON of a configuration file. Flags and environment win over it.
type file struct {
	Addr     string   `json:"addr"`
	Data     string   `json:"data"`
	Store    string   `json:"store"`
	APIKey   string   `json:"api_key"`
	Roots    []string `json:"roots"`
	Rate     string   `json:"rate"`
	Chat     string   `json:"chat_rate"`
	Default  string   `json:"default_model"`
	VLM      string   `json:"vlm"`
	AllowNet []string `json:"allow_net"`

	Embeddings []VectorModel     `json:"embeddings"`
	Rerankers  []VectorModel     `json:"rerankers"`
	WebSearch  []WebSearchConfig `json:"web_search"`
	DataBinary string            `json:"data_binary"`
	Fallback   []string          `json:"fallback_models"`
	Models     []ModelConfig     `json:"models"`
}

// ConfigError says that what a process was started with can't work: another try
// needs another configuration.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

func configError(err error) error {
	if err == nil {
		return nil
	}
	return &ConfigError{err}
}

// ReadFile fills what is not set in c from a JSON file. Its errors are a
// *ConfigError.
func (c *Config) ReadFile(path string) error { return configError(c.readFile(path)) }

func (c *Config) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	if len(raw) > maxConfigFile {
		return fmt.Errorf("configuration file %s is larger than 1 MiB", path)
	}
	in, err := decodeFile(raw)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	set := func(to *string, from string) {
		if *to == "" {
			*to = from
		}
	}
	set(&c.Addr, in.Addr)
	set(&c.Data, in.Data)
	set(&c.Store, in.Store)
	set(&c.APIKey, in.APIKey)
	set(&c.Default, in.Default)
	set(&c.VLM, in.VLM)
	if c.Fallback == nil {
		c.Fallback = in.Fallback
	}
	if c.AllowNet == nil {
		c.AllowNet = in.AllowNet
	}
	c.Embeddings = append(c.Embeddings, in.Embeddings...)
	c.Rerankers = append(c.Rerankers, in.Rerankers...)
	if c.WebSearch == nil {
		c.WebSearch = in.WebSearch
	}
	set(&c.DataBinary, in.DataBinary)
	set(&c.Rate, in.Rate)
	set(&c.ChatRate, in.Chat)
	if c.Roots == nil {
		c.Roots = in.Roots
	}
	c.Models = append(c.Models, in.Models...)
	return nil
}

// decodeFile reads a configuration file; its errors say what to change, and where.
func decodeFile(raw []byte) (in file, err error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // some editors write it
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err = dec.Decode(&in)
	if err == nil && dec.More() {
		err = errors.New("something follows the object; one JSON object is the whole file")
	}
	line := func(offset int64) int { return 1 + bytes.Count(raw[:min(offset, int64(len(raw)))], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("it ends too early, in line %d; one JSON object is expected, {} at least", line(int64(len(raw))))
	case errors.As(err, &syntax):
		err = fmt.Errorf("line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &kind):
		what := "the file"
		if kind.Field != "" {
			what = strconv.Quote(kind.Field)
		}
		err = fmt.Errorf("line %d: %s must be %s, not %s", line(kind.Offset), what, jsonKind(kind.Type.Kind()), kind.Value)
	case err != nil:
		err = errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return in, err
}

// jsonKind names what a field of the configuration file is.
func jsonKind(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// allowed reads AllowNet.
func (c *Config) allowed() ([]web.Range, error) {
	var out []web.Range
	for _, text := range c.AllowNet {
		r, err := web.ParseRange(text)
		if err != nil {
			return nil, configError(fmt.Errorf("--allow-net %q is no range of addresses; write one such as 10.1.0.0/16, or 10.1.0.0/16:3000 for another port than those of pages", text))
		}
		out = append(out, r)
	}
	return out, nil
}

// MinContextTokens is the smallest window that can be configured.
const MinContextTokens = 2048

// DefaultAddr is where a server listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8080"

// DefaultData is where a process keeps its record unless told otherwise: the
// user's data directory. Without one there is no safe place to guess.
func DefaultData() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "refold"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("there is no home directory to keep the record in; name one with --data DIR (or REFOLD_DATA)")
	}
	return filepath.Join(home, ".local", "share", "refold"), nil
}

// MinKey is the shortest key that a server takes, in bytes.
const MinKey = 16

// check completes the configuration and refuses what can't be served safely.
func (c *Config) check() error { return configError(c.complete()) }

func (c *Config) complete() error {
	if c.Data == "" {
		standard, err := DefaultData()
		if err != nil {
			return err
		}
		c.Data = standard
	}
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	c.Data = data
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = handlers.SystemClock{}
	}
	if err := c.checkStore(); err != nil {
		return err
	}
	for _, n := range append(slices.Collect(maps.Values(c.windows())), c.ContextTokens) {
		if n < 0 || n > 0 && n < MinContextTokens {
			return fmt.Errorf("a window of %d tokens is too small to work in: use at least %d", n, MinContextTokens)
		}
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("address %q: want host:port, for example %s", c.Addr, DefaultAddr)
	}
	if ip := net.ParseIP(host); c.APIKey == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("refusing to listen on %s without an API key: everybody who reaches it could read and steer every conversation; set --api-key (or REFOLD_API_KEY), or listen on 127.0.0.1", c.Addr)
	}
	if c.APIKey != "" && len(c.APIKey) < MinKey {
		return fmt.Errorf("the API key is too short to be safe: use at least %d characters", MinKey)
	}
	if _, err := c.rootsByTenant(); err != nil {
		return err
	}
	if _, err := c.limits(); err != nil {
		return err
	}
	return nil
}
