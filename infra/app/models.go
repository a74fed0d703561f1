package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/handlers"
	"refold/infra/extractive"
	"refold/infra/metrics"
	"refold/infra/openai"
	"refold/infra/pool"
)

// models are the named models of the process.
type models struct {
	byName   map[string]handlers.Model
	names    []string
	standard string
	vision   map[string]bool // can be shown images
	vlm      string
}

// newModels makes the clients. The extractive model is always there, and is the
// default when nothing else is configured.
func newModels(c Config, count *metrics.Set) (*models, error) {
	m := &models{byName: map[string]handlers.Model{}, vision: map[string]bool{}, vlm: c.VLM}
	for i, mc := range c.Models {
		if mc.Name == "" {
			mc.Name = fmt.Sprintf("model-%d", i+1)
		}
		if _, dup := m.byName[mc.Name]; dup || mc.Name == extractive.Name {
			return nil, fmt.Errorf("two models are named %q; names must differ, and %q is the built-in one", mc.Name, extractive.Name)
		}
		client, err := newModel(mc, c.Clock)
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", mc.Name, err)
		}
		m.byName[mc.Name] = count.Model(mc.Name, client)
		m.names = append(m.names, mc.Name)
		m.vision[mc.Name] = mc.Vision
	}
	m.byName[extractive.Name] = count.Model(extractive.Name, extractive.Model{})
	m.names = append(m.names, extractive.Name)
	m.standard = m.names[0]
	if c.Default != "" {
		if _, ok := m.byName[c.Default]; !ok {
			return nil, fmt.Errorf("the default model %q is not configured; there are %s", c.Default, strings.Join(m.names, ", "))
		}
		m.standard = c.Default
	}
	if c.VLM != "" && !m.vision[c.VLM] {
		return nil, fmt.Errorf("vlm names the model %q, which is not configured with \"vision\": true", c.VLM)
	}
	for _, name := range c.Fallback {
		if _, ok := m.byName[name]; !ok {
			return nil, fmt.Errorf("the fallback model %q is not configured; there are %s", name, strings.Join(m.names, ", "))
		}
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
	return nil, &handlers.ModelError{Code: handlers.CodeNotConfigured,
		Message: fmt.Sprintf("the model %q is not configured on this server; there are %s", name, strings.Join(m.names, ", "))}
}

// known refuses a model that is not configured.
func (m *models) known(name string) error {
	if _, err := m.Model(name); err != nil {
		var why *handlers.ModelError
		if errors.As(err, &why) {
			return domain.Reject(domain.Invalid, "model_not_configured", why.Message)
		}
		return err
	}
	return nil
}

// plain tells whether a model can only quote: it can't name a conversation.
func (m *models) plain(name string) bool {
	return name == extractive.Name || name == "" && m.standard == extractive.Name
}

// newModel makes the client of a model, or a pool of clients.
func newModel(mc ModelConfig, clock handlers.Clock) (handlers.Model, error) {
	var clients []handlers.Model
	for _, e := range append([]ModelEndpoint{{mc.BaseURL, mc.APIKey, mc.APIKeyEnv}}, mc.Endpoints...) {
		if e.BaseURL == "" {
			e.BaseURL = mc.BaseURL
		}
		if e.APIKeyEnv != "" && e.APIKey == "" {
			if e.APIKey = os.Getenv(e.APIKeyEnv); e.APIKey == "" {
				return nil, fmt.Errorf("the environment variable %s is not set", e.APIKeyEnv)
			}
		}
		if e.APIKey == "" {
			e.APIKey = mc.APIKey
		}
		client, err := openai.New(openai.Config{BaseURL: e.BaseURL, APIKey: e.APIKey, Model: mc.Model,
			CallTimeout: time.Duration(mc.TimeoutSec) * time.Second, IdleTimeout: time.Duration(mc.IdleSec) * time.Second,
			Reasoning: mc.Reasoning, ThinkingParam: mc.Thinking, MaxTokensField: mc.MaxTokens, NullContent: mc.NullContent, ExtraBody: mc.Extra})
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	if len(clients) == 1 && mc.TokensPerMinute == 0 {
		return clients[0], nil
	}
	return pool.New(pool.Config{Name: mc.Name, Models: clients, TokensPerMinute: mc.TokensPerMinute, Clock: clock})
}

// sees tells whether a model can be shown images.
func (m *models) sees(name string) bool {
	if name == "" {
		name = m.standard
	}
	return m.vision[name]
}

// takesImages tells whether a question to a model may have images.
func (m *models) takesImages(name string) error {
	if m.sees(name) || m.vlm != "" {
		return nil
	}
	return commands.ErrNoImages
}
