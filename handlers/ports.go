package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"refold/domain/run"
	"refold/domain/tool"
)

// Model is a language model. Implementations: infra/openai (any
// OpenAI-compatible server), infra/extractive (built in, offline).
type Model interface {
	// Chat sends one request and calls emit for each delta as it arrives, in
	// order, from one goroutine. It returns the whole reply; the text and
	// reasoning of the reply are exactly the concatenation of what was emitted.
	// A failed attempt is a *ModelError; the context's error comes back wrapped.
	// When emit fails, Chat ends at once and returns emit's error.
	Chat(ctx context.Context, req ModelRequest, emit func(ModelDelta) error) (ModelReply, error)
	// Name is the model's name, as asked for in requests.
	Name() string
}

// Role of a message in a model request.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// ModelMessage is one message of a request. An assistant message has Content
// or Calls or both; a tool message answers the call CallID.
type ModelMessage struct {
	Role      string      `json:"role"`
	Content   string      `json:"content"`
	Reasoning string      `json:"reasoning,omitempty"`
	Calls     []ModelCall `json:"calls,omitempty"`
	CallID    string      `json:"call_id,omitempty"`
	Name      string      `json:"name,omitempty"`   // of the tool, on tool messages
	Images    []string    `json:"images,omitempty"` // data URIs, on user messages
}

// ModelCall is a tool call as the model wrote it: Arguments are raw text, maybe
// no valid JSON, with provider quirks of framing already removed (see
// infra/openai). ID may be empty. Metadata is opaque and must be sent back.
type ModelCall = run.ProposedCall

// ModelRequest is everything that one call depends on.
type ModelRequest struct {
	Messages    []ModelMessage    `json:"messages"`
	Tools       []tool.Definition `json:"tools,omitempty"`
	Temperature float64           `json:"temperature"`
	MaxTokens   int               `json:"max_tokens,omitempty"`
	Thinking    bool              `json:"thinking"`
	Parallel    bool              `json:"parallel_tool_calls"`
}

// ModelDelta is a piece of a streamed reply. One delta has one of the fields
// set. Call names a tool call as soon as its name is known and complete; its
// Text is the next piece of its raw arguments.
type ModelDelta struct {
	Reasoning string
	Content   string
	Call      *ModelCallDelta
}

// ModelCallDelta announces or extends a call; Index counts the calls of this
// reply from 0.
type ModelCallDelta struct {
	Index int
	ID    string
	Name  string
	Text  string // next piece of the arguments, may be empty
}

// Finish reasons after normalisation (trimmed, lower case, end_turn and
// stop_sequence are "stop", function_call is "tool_calls", max_tokens is
// "length"). Others are passed on as they are.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
)

// ModelReply is a whole reply.
type ModelReply struct {
	Content   string
	Reasoning string
	Calls     []ModelCall
	Finish    string
	Model     string // as the server named it
	Usage     ModelUsage
	// RequestDigest is "sha256:" and 64 hex digits of the exact request as it was
	// sent, "" if none was.
	RequestDigest string
}

// TokenCounter counts the tokens of a text. It never fails and never waits: what
// it can't count exactly it estimates with care. Safe for concurrent use.
type TokenCounter interface{ Count(text string) int }

// ModelUsage counts tokens, as the provider reports them; zero when it does not.
type ModelUsage = run.Usage

// CodeNotConfigured is the code of a model that this process does not have.
const CodeNotConfigured = "not_configured"

// ModelError is a failed attempt. Code is stable: rate_limited, overloaded,
// timeout, connection, server_error, bad_response (not the protocol: HTML, no
// JSON), incomplete (the stream broke off before a finish reason), unauthorized,
// not_found, bad_request, context_overflow, stalled (no data event for too
// long), not_configured, too_long (nothing was sent: the question alone exceeds
// the window). Message is for people: what happened and what to do;
// it never holds keys.
type ModelError struct {
	Code       string
	Status     int // HTTP status, 0 if there was none
	Message    string
	Transient  bool          // another attempt may succeed
	RetryAfter time.Duration // asked for by the provider, 0 if not
	// Limit and Requested are the tokens that a provider named with
	// context_overflow: of its window, and of the request; 0 if it named none.
	Limit, Requested int
}

func (e *ModelError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Code, e.Status, e.Message)
	}
	return e.Code + ": " + e.Message
}

// Blobs keeps large content by its digest. Safe for concurrent use.
type Blobs interface {
	// Put stores content, if it is not there yet, durably, and gives its digest:
	// "sha256:" and 64 hex digits.
	Put(ctx context.Context, tenant string, content []byte) (digest string, err error)
	// Open gives the content for reading and seeking; ErrNoBlob if the tenant
	// does not have it.
	Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error)
}

// ErrNoBlob says that there is no such content.
var ErrNoBlob = errors.New("no such content")
