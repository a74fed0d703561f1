// Package agent is the configuration of agents: who answers, with which model,
// prompt, tools, knowledge and limits. It imports the standard library and
// domain/tool. Start reading at Agent, then builtin.go.
package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"refold/domain/tool"
)

// Agent is a configured agent. Model "" is the server's default model; Tools
// nil is every tool that the server can offer.
type Agent struct {
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	Description   string        `json:"description"`
	SystemPrompt  string        `json:"system_prompt"` // with {{placeholders}}, see Render
	Model         string        `json:"model"`
	Fallbacks     []string      `json:"fallback_models,omitempty"` // asked in order when the model fails for good
	Temperature   float64       `json:"temperature"`               // 0 to 2; negative is DefaultTemperature
	MaxTokens     int           `json:"max_completion_tokens"`
	Thinking      bool          `json:"thinking"`
	ParallelTools bool          `json:"parallel_tool_calls"`
	MaxRounds     int           `json:"max_iterations"`
	ModelTimeout  time.Duration `json:"llm_call_timeout"`
	RunTimeout    time.Duration `json:"run_timeout"` // 0 = none
	Tools         []string      `json:"allowed_tools"`
	MaxOutput     int           `json:"max_tool_output_chars"`
	// ApprovalTimeout is how long a call waits for a person; 0 = the default.
	ApprovalTimeout time.Duration `json:"approval_timeout,omitempty"`
	// MaxContextTokens is the window that a request and its reply must fit; 0 =
	// the model's own.
	MaxContextTokens int `json:"max_context_tokens,omitempty"`
	// HistoryTurns is how many earlier turns of the session the model sees; 0 =
	// the default, negative = none.
	HistoryTurns int `json:"history_turns,omitempty"`
	// RetainRetrieval keeps old results of retrieval in the history. Else the
	// model must search again, since sources may have changed.
	RetainRetrieval bool `json:"retain_retrieval_history,omitempty"`

	Mode string `json:"agent_mode,omitempty"` // SmartReasoning's "", or ModeQuick
	// Knowledge says which bases the agent uses if a message names none: KnowledgeAll,
	// KnowledgeSelected (Bases) or KnowledgeNone, which "" is too.
	Knowledge     string         `json:"kb_selection_mode,omitempty"`
	Bases         []string       `json:"knowledge_bases,omitempty"`
	OnlyMentioned bool           `json:"retrieve_kb_only_when_mentioned,omitempty"` // else none
	Retrieval     tool.Retrieval `json:"retrieval,omitzero"`
	Uncited       bool           `json:"uncited,omitempty"` // answers show no citations
	Web           bool           `json:"web_search_enabled,omitempty"`
	Quick         Quick          `json:"quick,omitzero"`
}

// ModeQuick answers in one pass: search, then one generation.
const ModeQuick = "quick-answer"

// Which bases an agent uses.
const (
	KnowledgeAll      = "all"
	KnowledgeSelected = "selected"
	KnowledgeNone     = "none"
)

// Quick is how an agent of ModeQuick makes its answers.
type Quick struct {
	Rewrite        bool   `json:"enable_rewrite,omitempty"`
	RewriteSystem  string `json:"rewrite_prompt_system,omitempty"`
	RewriteUser    string `json:"rewrite_prompt_user,omitempty"`
	RewriteModel   string `json:"query_understand_model_id,omitempty"`
	Template       string `json:"context_template,omitempty"`
	Fallback       string `json:"fallback_strategy,omitempty"` // fixed or model
	FallbackText   string `json:"fallback_response,omitempty"`
	FallbackPrompt string `json:"fallback_prompt,omitempty"`
}

// DefaultTemperature stands for a negative temperature; 0 is a valid one.
const DefaultTemperature = 0.7

// Hash identifies the configuration: hex sha256 of its JSON.
func (a Agent) Hash() string {
	b, _ := json.Marshal(a) // plain fields only: can't fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
