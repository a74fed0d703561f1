package knowledge

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"refold/domain"
)

// Settings say how a base treats what is put into it. A change holds for what is
// put in, or read again, from then on.
type Settings struct {
	Chunking  Chunking                   `json:"chunking"`
	Embedding string                     `json:"embedding_model,omitempty"` // configured name, "" = the default one
	Strategy  Strategy                   `json:"strategy"`
	FAQ       *FAQMode                   `json:"faq,omitempty"`
	Other     map[string]json.RawMessage `json:"other,omitempty"` // what clients set and we only give back, by the name on the wire
}

// Chunking says how texts are cut. Sizes are tokens; 0 and "" are the default.
// The names are those of the wire format.
type Chunking struct {
	Size         int             `json:"chunk_size"`
	Overlap      int             `json:"chunk_overlap"`
	Separators   []string        `json:"separators"`
	Rules        json.RawMessage `json:"parser_engine_rules,omitempty"` // kept, and given back
	ParentChild  bool            `json:"enable_parent_child,omitempty"`
	Parent       int             `json:"parent_chunk_size,omitempty"`
	Child        int             `json:"child_chunk_size,omitempty"`
	Limit        int             `json:"token_limit,omitempty"`
	Strategy     string          `json:"strategy,omitempty"`
	Languages    []string        `json:"languages,omitempty"`
	TableMessage string          `json:"table_metadata_instructions,omitempty"`
}

// Strategy says by what a base can be searched.
type Strategy struct {
	Vector  bool `json:"vector_enabled"`
	Keyword bool `json:"keyword_enabled"`
	Wiki    bool `json:"wiki_enabled"`
	Graph   bool `json:"graph_enabled"`
}

// FAQMode says what of an FAQ entry is searched.
type FAQMode struct {
	Index    string `json:"index_mode"`
	Question string `json:"question_index_mode"`
}

// Values of FAQMode: what of an entry is searched, and whether its questions are
// found as one text or each by itself.
const (
	QuestionOnly   = "question_only"
	QuestionAnswer = "question_answer" // the default
	Combined       = "combined"        // the default
	Separate       = "separate"
)

// Bounds of settings.
const (
	maxChunkSize  = 10_000
	maxSeparators = 16
	maxSeparator  = 64
	maxTableText  = 4000
	maxOther      = 24
	maxOtherBytes = 64 << 10
)

// DefaultStrategy is that of a base that names none.
var DefaultStrategy = Strategy{Vector: true, Keyword: true}

func invalid(code, format string, args ...any) error {
	return domain.Reject(domain.Invalid, code, fmt.Sprintf(format, args...))
}

// plain checks settings for a kind of base and fills what is not set.
func (s Settings) plain(kind string) (Settings, error) {
	if s.Strategy == (Strategy{}) {
		s.Strategy = DefaultStrategy
	}
	if runes(s.Embedding) > 64 {
		return s, invalid("bad_embedding_model", "the name of an embedding model has at most 64 characters")
	}
	var err error
	if s.Chunking, err = s.Chunking.plain(); err != nil {
		return s, err
	}
	switch {
	case s.FAQ != nil && kind != KindFAQ:
		return s, invalid("bad_faq_config", "faq_config is for knowledge bases of type faq only; leave it out")
	case s.FAQ == nil && kind == KindFAQ:
		s.FAQ = &FAQMode{}
	}
	if s.FAQ != nil {
		m := *s.FAQ
		if m.Index == "" {
			m.Index = QuestionAnswer
		}
		if m.Question == "" {
			m.Question = Combined
		}
		if !slices.Contains([]string{QuestionOnly, QuestionAnswer}, m.Index) {
			return s, invalid("bad_faq_config", `faq_config.index_mode must be "question_only" or "question_answer"`)
		}
		if !slices.Contains([]string{Combined, Separate}, m.Question) {
			return s, invalid("bad_faq_config", `faq_config.question_index_mode must be "combined" or "separate"`)
		}
		s.FAQ = &m
	}
	if s.Other, err = plainOther(s.Other); err != nil {
		return s, err
	}
	if _, set := s.Other["auto_tag_config"]; set && kind != KindDocument {
		return s, invalid("bad_auto_tag_config", "auto_tag_config is for knowledge bases of type document only; leave it out")
	}
	return s, nil
}

// Check refuses a way of cutting that can't be taken.
func (c Chunking) Check() error {
	_, err := c.plain()
	return err
}

func (c Chunking) plain() (Chunking, error) {
	for _, n := range []int{c.Size, c.Overlap, c.Parent, c.Child, c.Limit} {
		if n < 0 || n > 10*maxChunkSize {
			return c, invalid("bad_chunking_config", "sizes in chunking_config are from 0 to %d tokens", 10*maxChunkSize)
		}
	}
	if c.Size > maxChunkSize {
		return c, invalid("bad_chunking_config", "chunk_size is at most %d tokens", maxChunkSize)
	}
	if c.Size == 0 {
		c.Size = 512
		if c.Overlap == 0 {
			c.Overlap = 80
		}
	}
	if c.Overlap >= c.Size {
		return c, invalid("bad_chunking_config", "chunk_overlap must be smaller than chunk_size, which is %d", c.Size)
	}
	if len(c.Separators) > maxSeparators || slices.ContainsFunc(c.Separators, func(s string) bool { return runes(s) > maxSeparator }) {
		return c, invalid("bad_chunking_config", "at most %d separators of %d characters each are taken", maxSeparators, maxSeparator)
	}
	if runes(c.Strategy) > 32 || len(c.Languages) > 16 || slices.ContainsFunc(c.Languages, func(s string) bool { return runes(s) > 16 }) {
		return c, invalid("bad_chunking_config", "strategy or languages in chunking_config are too long")
	}
	if runes(c.TableMessage) > maxTableText {
		return c, invalid("bad_chunking_config", "table_metadata_instructions has at most %d characters", maxTableText)
	}
	if c.Rules != nil {
		rules, err := plainJSON("parser_engine_rules", c.Rules)
		if err != nil {
			return c, err
		}
		c.Rules = rules
	}
	return c, nil
}

// same tells whether two ways of cutting give the same pieces.
func (c Chunking) same(o Chunking) bool {
	c.Rules, o.Rules, c.Languages, o.Languages, c.TableMessage, o.TableMessage = nil, nil, nil, nil, "", ""
	if len(c.Separators) == 0 {
		c.Separators = nil
	}
	if len(o.Separators) == 0 {
		o.Separators = nil
	}
	return reflect.DeepEqual(c, o)
}

func plainOther(in map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if len(in) > maxOther {
		return nil, invalid("bad_config", "a knowledge base takes at most %d further settings", maxOther)
	}
	out := map[string]json.RawMessage{}
	for name, raw := range in {
		if name == "" || len(name) > 64 {
			return nil, invalid("bad_config", "the name of a setting has 1 to 64 bytes")
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		kept, err := plainJSON(name, raw)
		if err != nil {
			return nil, err
		}
		out[name] = kept
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// plainJSON checks and bounds JSON that we only give back, and leaves out what
// looks like a secret: the record is no place for it.
func plainJSON(name string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxOtherBytes {
		return nil, invalid("bad_config", "%s has more than %d bytes", name, maxOtherBytes)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, invalid("bad_config", "%s is no valid JSON", name)
	}
	if !withoutSecrets(v) {
		return json.RawMessage(slices.Clone(raw)), nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, invalid("bad_config", "%s is no valid JSON", name)
	}
	return out, nil
}

var secretNames = []string{"secret_id", "secret_key", "api_key", "access_key", "access_key_id", "access_key_secret", "secret_access_key", "password", "token", "authorization"}

// withoutSecrets empties secrets in place and tells whether there were any.
func withoutSecrets(v any) bool {
	found := false
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && text != "" && slices.Contains(secretNames, name) {
				v[name], found = "", true
				continue
			}
			found = withoutSecrets(value) || found
		}
	case []any:
		for _, value := range v {
			found = withoutSecrets(value) || found
		}
	}
	return found
}
