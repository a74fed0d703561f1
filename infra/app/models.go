package app

import (
	"fmt"
	"os"
	"strings"
	"time"

	"refold/handlers"
	"refold/infra/extractive"
	"refold/infra/openai"
)

// models are the named models of the process.
type models struct {
	byName   map[string]handlers.Model
	names    []string
	standard string
}

// newModels makes the clients. The extractive model is always there, and is the
// default when nothing else is configured.
func newModels(c Config) (*models, error) {
	m := &models{byName: map[string]handlers.Model{}}
	for i, mc := range c.Models {
		if mc.Name == "" {
			mc.Name = fmt.Sprintf("model-%d", i+1)
		}
		if _, dup := m.byName[mc.Name]; dup || mc.Name == extractive.Name {
			return nil, fmt.Errorf("two models are named %q; names must differ, and %q is the built-in one", mc.Name, extractive.Name)
		}
		if mc.APIKeyEnv != "" && mc.APIKey == "" {
			if mc.APIKey = os.Getenv(mc.APIKeyEnv); mc.APIKey == "" {
				return nil, fmt.Errorf("model %q: the environment variable %s is not set", mc.Name, mc.APIKeyEnv)
			}
		}
		client, err := openai.New(openai.Config{BaseURL: mc.BaseURL, APIKey: mc.APIKey, Model: mc.Model,
			CallTimeout: time.Duration(mc.TimeoutSec) * time.Second, IdleTimeout: time.Duration(mc.IdleSec) * time.Second,
			Reasoning: mc.Reasoning, ThinkingParam: mc.Thinking, MaxTokensField: mc.MaxTokens, NullContent: mc.NullContent, ExtraBody: mc.Extra})
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", mc.Name, err)
		}
		m.byName[mc.Name] = client
		m.names = append(m.names, mc.Name)
	}
	m.byName[extractive.Name] = extractive.Model{}
	m.names = append(m.names, extractive.Name)
	m.standard = m.names[0]
	if c.Default != "" {
		if _, ok := m.byName[c.Default]; !ok {
			return nil, fmt.Errorf("the default model %q is not configured; there are %s", c.Default, strings.Join(m.names, ", "))
		}
		m.standard = c.Default
	}
	return m, nil
}

// Model implements handlers.Models.
func (m *models) Model(name string) (handlers.Model, error) {
	if name == "" {
		name = m.standard
	}
	if model, ok := m.byName[name]; ok {
		return model, nil
	}
	return nil, &handlers.ModelError{Code: "not_configured",
		Message: fmt.Sprintf("the model %q is not configured on this server; there are %s", name, strings.Join(m.names, ", "))}
}
