package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/agent"
)

// agentJSON is an agent on the wire, as far as this server knows agents.
type agentJSON struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Avatar      string     `json:"avatar"`
	IsBuiltin   bool       `json:"is_builtin"`
	TenantID    int64      `json:"tenant_id"`
	CreatedBy   string     `json:"created_by"`
	Config      body       `json:"config"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	DeletedAt   *time.Time `json:"deleted_at"`
}

func wireAgent(r *http.Request, g agent.Agent) agentJSON {
	mode, knowledge := "smart-reasoning", g.Knowledge
	if g.Mode == agent.ModeQuick {
		mode = "quick-answer"
	}
	if knowledge == "" {
		knowledge = agent.KnowledgeNone
	}
	return agentJSON{ID: g.ID, Name: g.Name, Description: g.Description, IsBuiltin: true, TenantID: tenantNumber(r), Config: body{
		"agent_mode": mode, "agent_type": "custom", "system_prompt": g.SystemPrompt, "context_template": g.Quick.Template,
		"model_id": g.Model, "rerank_model_id": g.Retrieval.RerankModel, "temperature": g.Temperature, "max_completion_tokens": g.MaxTokens,
		"thinking": g.Thinking, "citation_enabled": !g.Uncited, "max_iterations": g.MaxRounds, "allowed_tools": g.Tools, "multi_turn_enabled": true,
		"history_turns": 5, "web_search_enabled": g.Web, "web_search_max_results": g.Retrieval.WebResults, "mcp_selection_mode": "none", "skills_selection_mode": "none",
		"kb_selection_mode": knowledge, "knowledge_bases": g.Bases, "retrieve_kb_only_when_mentioned": g.OnlyMentioned, "retain_retrieval_history": g.RetainRetrieval,
		"embedding_top_k": g.Retrieval.TopK, "rerank_top_k": g.Retrieval.RerankTopK, "keyword_threshold": g.Retrieval.KeywordThreshold,
		"vector_threshold": g.Retrieval.VectorThreshold, "rerank_threshold": g.Retrieval.RerankThreshold, "faq_priority_enabled": g.Retrieval.FAQPriority,
		"faq_direct_answer_threshold": g.Retrieval.FAQDirect, "faq_score_boost": g.Retrieval.FAQBoost, "enable_query_expansion": g.Retrieval.Expand,
		"enable_rewrite": g.Quick.Rewrite, "fallback_strategy": g.Quick.Fallback, "fallback_response": g.Quick.FallbackText, "fallback_prompt": g.Quick.FallbackPrompt,
	}}
}

func (a *API) listAgents(w http.ResponseWriter, r *http.Request) {
	out := []agentJSON{}
	for _, g := range a.Agents {
		out = append(out, wireAgent(r, g))
	}
	b := ok(out)
	b["disabled_own_agent_ids"] = []string{}
	respond(w, http.StatusOK, b)
}

func (a *API) getAgent(w http.ResponseWriter, r *http.Request) {
	for _, g := range a.Agents {
		if g.ID == chi.URLParam(r, "agent") {
			respond(w, http.StatusOK, ok(wireAgent(r, g)))
			return
		}
	}
	a.fail(w, r, notFound("there is no such agent; see GET /api/v1/agents"))
}
