package tool

import (
	"encoding/json"
	"slices"
)

// Reference is a piece of evidence as it was found: the text, and where it
// stands. The names are wire format. Metadata has the revision of the document
// and the digest of the text, so that evidence can be checked after the document
// has changed.
type Reference struct {
	ID          string            `json:"id"` // of the chunk, or the URL of a page
	Content     string            `json:"content"`
	Document    string            `json:"knowledge_id"`
	Index       int               `json:"chunk_index"`
	Title       string            `json:"knowledge_title"`
	Start       int               `json:"start_at"`
	End         int               `json:"end_at"`
	Seq         int               `json:"seq"`
	Score       float64           `json:"score"`
	Match       int               `json:"match_type"` // MatchVector ...
	SubChunks   []string          `json:"sub_chunk_id"`
	Metadata    map[string]string `json:"metadata"`
	Kind        string            `json:"chunk_type"`
	Parent      string            `json:"parent_chunk_id"`
	Images      string            `json:"image_info"`
	File        string            `json:"knowledge_filename"`
	Source      string            `json:"knowledge_source"`
	Channel     string            `json:"knowledge_channel"`
	Matched     string            `json:"matched_content,omitempty"`
	Description string            `json:"knowledge_description,omitempty"`
	Base        string            `json:"knowledge_base_id,omitempty"`
}

// How a reference was found.
const (
	MatchVector  = 0
	MatchKeyword = 1
	MatchNearby  = 2
	MatchHistory = 3
	MatchParent  = 4
	MatchWeb     = 7
	MatchDirect  = 8
	MatchData    = 9
)

// Bounds of the references of one run, and of one of them.
const (
	MaxReferences    = 50
	MaxReferenceText = 2000 // runes
)

// ReferencesOf gives the references in the payload of a result: its member
// "references".
func ReferencesOf(data json.RawMessage) []Reference {
	var d struct {
		References []Reference `json:"references"`
	}
	if len(data) == 0 || json.Unmarshal(data, &d) != nil {
		return nil
	}
	return d.References
}

// AddReferences gives a list with those of another that it does not have, up to
// MaxReferences, and whether there were any.
func AddReferences(list, more []Reference) ([]Reference, bool) {
	n := len(list)
	for _, r := range more {
		if r.ID == "" || len(list) >= MaxReferences || slices.ContainsFunc(list, func(o Reference) bool { return o.ID == r.ID }) {
			continue
		}
		r.Content = cut(r.Content, MaxReferenceText)
		list = append(slices.Clip(list), r)
	}
	return list, len(list) > n
}
