package app

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"refold/handlers"
	"refold/infra/openai"
)

// VectorModel names a model that makes vectors of texts, or one that judges
// passages, on a server that has /embeddings, or the common /rerank.
type VectorModel struct {
	Name       string `json:"name"`     // as bases and agents name it; "" = model
	BaseURL    string `json:"base_url"` // up to /v1; "" = OpenAI's own
	APIKey     string `json:"api_key"`
	APIKeyEnv  string `json:"api_key_env"` // environment variable that holds the key
	Model      string `json:"model"`       // as the server names it
	Dimensions int    `json:"dimensions"`  // of the vectors; 0 = as the model gives them
	TimeoutSec int    `json:"timeout_seconds"`
}

func (v VectorModel) config() (openai.Config, error) {
	key := v.APIKey
	if key == "" && v.APIKeyEnv != "" {
		if key = os.Getenv(v.APIKeyEnv); key == "" {
			return openai.Config{}, fmt.Errorf("the environment variable %s is not set", v.APIKeyEnv)
		}
	}
	return openai.Config{BaseURL: v.BaseURL, APIKey: key, Model: v.Model, CallTimeout: time.Duration(v.TimeoutSec) * time.Second}, nil
}

// vectors are the embedding models and the rerankers of the process, by name; ""
// is the first.
type vectors struct {
	embedders map[string]handlers.Embedder
	rerankers map[string]handlers.Reranker
}

func newVectors(c Config) (vectors, error) {
	out := vectors{map[string]handlers.Embedder{}, map[string]handlers.Reranker{}}
	for i, m := range c.Embeddings {
		cfg, err := m.config()
		var e handlers.Embedder
		if err == nil {
			e, err = openai.NewEmbedder(cfg, openai.EmbedOptions{Dimensions: m.Dimensions})
		}
		if err == nil {
			err = put(out.embedders, cmp.Or(m.Name, m.Model), i, e)
		}
		if err != nil {
			return out, configError(fmt.Errorf("embedding model %q: %w", cmp.Or(m.Name, m.Model), err))
		}
	}
	for i, m := range c.Rerankers {
		cfg, err := m.config()
		var r handlers.Reranker
		if err == nil {
			r, err = openai.NewReranker(cfg)
		}
		if err == nil {
			err = put(out.rerankers, cmp.Or(m.Name, m.Model), i, r)
		}
		if err != nil {
			return out, configError(fmt.Errorf("rerank model %q: %w", cmp.Or(m.Name, m.Model), err))
		}
	}
	return out, nil
}

func put[T any](into map[string]T, name string, i int, v T) error {
	if _, taken := into[name]; taken || name == "" {
		return fmt.Errorf("models need names that differ")
	}
	into[name] = v
	if i == 0 {
		into[""] = v
	}
	return nil
}

// embedder is nil for a name that is not configured.
func (v vectors) embedder(_, name string) handlers.Embedder {
	if e, ok := v.embedders[name]; ok {
		return e
	}
	return nil
}

func (v vectors) reranker(_, name string) handlers.Reranker {
	if r, ok := v.rerankers[name]; ok {
		return r
	}
	return nil
}

// called is what the vectors of a model are called: see commands.Commands.Vectors.
func (v vectors) called(tenant, name string) string {
	if e := v.embedder(tenant, name); e != nil {
		return e.Name()
	}
	return ""
}
