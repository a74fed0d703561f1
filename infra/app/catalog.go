package app

import (
	"context"
	"slices"
	"time"

	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers/tools"
)

// catalog says which agents there are and which tools they can be offered.
type catalog struct {
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

// fileTools work on a workspace only.
var fileTools = []string{tools.ListFilesName, tools.GrepFilesName, tools.ReadFileName}

// Offer implements commands.Catalog: the agent's tools whose dependencies are
// at hand in this run. What can't work is not shown to the model.
func (c *catalog) Offer(_ context.Context, _ string, a agent.Agent, workspace string) ([]tool.Definition, error) {
	out := []tool.Definition{}
	for _, d := range c.registry.Definitions() {
		switch {
		case a.Tools != nil && !slices.Contains(a.Tools, d.Name):
		case workspace == "" && slices.Contains(fileTools, d.Name):
		case workspace == "" && d.Name == tools.TodoWriteName: // nothing to plan for without sources
		default:
			out = append(out, d)
		}
	}
	return out, nil
}
