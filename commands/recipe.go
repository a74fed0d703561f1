package commands

import (
	"encoding/json"

	"refold/domain"
	"refold/domain/knowledge"
)

// recipe is how a base treats what is put into it now. process may name another
// way of cutting.
func (c *Commands) recipe(tenant string, b knowledge.Base, process json.RawMessage) (knowledge.Recipe, error) {
	r := knowledge.Recipe{Parser: knowledge.Parsing, Chunker: knowledge.Cutting + "." + knowledge.Mentions, Chunking: b.Settings.Chunking,
		Vector: b.Settings.Strategy.Vector, Embedding: b.Settings.Embedding}
	if b.Settings.FAQ != nil {
		r.FAQ, r.Separate = b.Settings.FAQ.Index, b.Settings.FAQ.Question == knowledge.Separate
	}
	if c.Vectors != nil && r.Vector {
		r.Vectors = c.Vectors(tenant, r.Embedding)
	}
	if len(process) > 0 {
		var p struct {
			Chunking *knowledge.Chunking `json:"chunking_config"`
		}
		if err := json.Unmarshal(process, &p); err != nil {
			return r, domain.Reject(domain.Invalid, "bad_process_config", "process_config is not what it should be; see chunking_config in the reference of the API")
		}
		if p.Chunking != nil {
			r.Chunking = *p.Chunking
		}
	}
	return r, nil
}

// existing names the document that is there already.
func existing(duplicate error, id string) error {
	if r, ok := domain.AsRejection(duplicate); ok {
		return r.With(map[string]any{"knowledge_id": id})
	}
	return duplicate
}
