package app

import (
	"context"
	"slices"
	"time"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
)

// catalog says which agents there are and which tools they can be offered.
type catalog struct {
	scopes          *scopes // nil = nothing is known
	registry        *tool.Registry
	models          *models
	fallback        []string
	temperature     float64
	runTimeout      time.Duration
	modelTimeout    time.Duration
	approvalTimeout time.Duration
	contextTokens   int            // of models that have none of their own, 0 = the default
	windows         map[string]int // by model, those that have
}

// ContextTokens implements commands.Windows.
func (c *catalog) ContextTokens(model string) int {
	if model == "" {
		model = c.models.standard
	}
	if c.models.plain(model) {
		return run.NoWindow // it reads, and quotes, whatever there is
	}
	if n := c.windows[model]; n > 0 {
		return n
	}
	return c.contextTokens
}

// Agent implements commands.Catalog.
func (c *catalog) Agent(_ context.Context, _, id string) (agent.Agent, bool, error) {
	a, ok := agent.Builtin(id)
	if c.temperature >= 0 {
		a.Temperature = c.temperature
	}
	if a.Model == "" {
		a.Model = c.models.standard
	}
	a.Fallbacks = c.fallback
	a.RunTimeout, a.ModelTimeout, a.ApprovalTimeout = c.runTimeout, c.modelTimeout, c.approvalTimeout
	return a, ok, nil
}

// What tools need, so that what can't work is not shown to the model.
var (
	fileTools      = []string{tools.ListFilesName, tools.GrepFilesName, tools.ReadFileName}
	knowledgeTools = []string{"knowledge_search", "grep_chunks", "list_knowledge_chunks", "get_document_info", "database_query", "data_schema", "data_analysis"}
	webTools       = []string{"web_search", "web_fetch"}
)

// Offer implements commands.Catalog: the agent's tools whose dependencies are
// at hand in this run.
func (c *catalog) Offer(_ context.Context, _ string, a agent.Agent, m commands.Means) ([]tool.Definition, error) {
	if a.Mode == agent.ModeQuick {
		return c.stages(m), nil
	}
	knowledge := !m.Scope.Empty()
	out := []tool.Definition{}
	for _, d := range c.registry.Definitions() {
		switch {
		case d.Name == run.StageUnderstand: // of the engine alone
		case a.Tools != nil && !slices.Contains(a.Tools, d.Name):
		case m.Workspace == "" && slices.Contains(fileTools, d.Name):
		case !knowledge && slices.Contains(knowledgeTools, d.Name):
		case !m.Web && slices.Contains(webTools, d.Name):
		case d.Name == tools.TodoWriteName && m.Workspace == "" && !knowledge && !m.Web: // nothing to plan for without sources
		default:
			out = append(out, d)
		}
	}
	return out, nil
}

// stages are what a quick answer runs by itself.
func (c *catalog) stages(m commands.Means) []tool.Definition {
	var out []tool.Definition
	for _, name := range []string{run.StageUnderstand, run.StageSearch, run.StageWeb} {
		if d, ok := c.registry.Definition(name); ok {
			out = append(out, d)
		}
	}
	return out
}

// understanding stands in the registry for the stage that the runner does by
// itself.
type understanding struct{}

// Definition implements tool.Tool.
func (understanding) Definition() tool.Definition { return handlers.Understand }

// Run implements tool.Tool.
func (understanding) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Failed("this is a stage of quick answers, not a tool"), nil
}
