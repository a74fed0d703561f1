package api

import (
	"bytes"
	"encoding/json"

	"refold/commands"
	"refold/domain/knowledge"
)

// baseConfig is what a client says about how a base works. Kept are the settings
// that this server has no use for yet and gives back as they came.
type baseConfig struct {
	Chunking  *knowledge.Chunking `json:"chunking_config"`
	Strategy  *knowledge.Strategy `json:"indexing_strategy"`
	FAQ       *knowledge.FAQMode  `json:"faq_config"`
	Embedding *string             `json:"embedding_model_id"`

	kept map[string]json.RawMessage
}

// keptConfigs are the names of settings that are kept, with what they are where
// nobody has set them.
var keptConfigs = map[string]string{
	"image_processing_config": `{"model_id":""}`, "vlm_config": `{"enabled":false,"model_id":""}`, "asr_config": `{"enabled":false,"model_id":"","language":""}`,
	"storage_config": `{}`, "storage_provider_config": "null", "extract_config": "null", "question_generation_config": "null", "auto_tag_config": "null",
	"wiki_config": "null", "summary_model_id": `""`, "storage_backend_id": `""`, "vector_store_id": `""`, "is_temporary": "false",
}

// configOf reads the settings out of a body or its member config.
func configOf(raw map[string]json.RawMessage) (baseConfig, error) {
	var c baseConfig
	all, err := json.Marshal(raw)
	if err == nil {
		err = parse(all, &c)
	}
	if err != nil {
		return c, err
	}
	c.kept = map[string]json.RawMessage{}
	for name, standard := range keptConfigs {
		value, err := keptValue(name, standard, raw[name])
		if err == nil && name == "storage_config" {
			var old json.RawMessage
			if old, err = keptValue("cos_config", standard, raw["cos_config"]); raw[name] == nil {
				value = old
			}
		}
		if err != nil {
			return c, err
		}
		if value != nil {
			c.kept[name] = value
		}
	}
	return c, nil
}

// keptValue checks that a setting is what it is where nobody has set it, an object
// for null; nil if the client has not set it either.
func keptValue(name, standard string, raw json.RawMessage) (json.RawMessage, error) {
	value := bytes.TrimSpace(raw)
	if len(value) == 0 || string(value) == "null" {
		return nil, nil
	}
	want, fits := "an object", value[0] == '{'
	switch standard[0] {
	case '"':
		want, fits = "a string", value[0] == '"'
	case 'f':
		want, fits = "true or false", value[0] == 't' || value[0] == 'f'
	}
	switch {
	case !fits:
		return nil, invalid(name + " must be " + want)
	case string(value) == `""`, string(value) == "false":
		return nil, nil
	}
	return value, nil
}

func (c baseConfig) settings() knowledge.Settings {
	s := knowledge.Settings{FAQ: c.FAQ, Other: c.kept}
	if c.Chunking != nil {
		s.Chunking = *c.Chunking
	}
	if c.Strategy != nil {
		s.Strategy = *c.Strategy
	}
	if c.Embedding != nil {
		s.Embedding = *c.Embedding
	}
	return s
}

func (c baseConfig) change(ch *commands.BaseChange) {
	ch.Chunking, ch.Strategy, ch.FAQ, ch.Embedding, ch.Other = c.Chunking, c.Strategy, c.FAQ, c.Embedding, c.kept
}

// kept gives a setting that was kept, or what it is where nobody has set it.
func kept(s knowledge.Settings, name string) json.RawMessage {
	if value, set := s.Other[name]; set {
		return value
	}
	return json.RawMessage(keptConfigs[name])
}

// keptText gives a kept setting that is a text.
func keptText(s knowledge.Settings, name string) string {
	var text string
	if err := json.Unmarshal(kept(s, name), &text); err != nil {
		return ""
	}
	return text
}
