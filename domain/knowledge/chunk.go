package knowledge

// Kind of a chunk, as the wire format names it.
type Kind string

// The kinds of chunks.
const (
	Text         Kind = "text"          // what is searched and cited
	ParentText   Kind = "parent_text"   // a larger piece that several text chunks are part of; read, not searched
	Summary      Kind = "summary"       // of a document
	TableSummary Kind = "table_summary" // what a table file holds
	TableColumn  Kind = "table_column"  // what a column holds
	FAQText      Kind = "faq"           // one FAQ entry
	FAQQuestion  Kind = "faq_question"  // another way to ask it, found by itself; Parent is the entry's
)

// Searched tells whether chunks of the kind are found by searches. All can be
// read by id.
func (k Kind) Searched() bool { return k != ParentText }

// Chunk is a piece of one revision of a document. Its id is derived from
// document, revision and index, so a chunk never changes under its id, except
// that a person may edit it, which counts Edition up.
type Chunk struct {
	ID       string `json:"id"` // UUID
	Base     string `json:"base"`
	Document string `json:"document"`
	Revision int    `json:"revision"` // of the document's content, from 1
	Index    int    `json:"index"`    // place in the document, from 0
	Kind     Kind   `json:"kind"`
	Parent   string `json:"parent,omitempty"` // id of the larger piece
	Start    int    `json:"start"`            // runes in the document's text
	End      int    `json:"end"`
	Context  string `json:"context,omitempty"` // the headings above it, "A > B"; searched and embedded with the content
	Content  string `json:"content"`
	Tokens   int    `json:"tokens"`
	Digest   string `json:"digest"`             // "sha256:..." of the content
	Edition  int    `json:"edition,omitempty"`  // how often a person has edited it
	Disabled bool   `json:"disabled,omitempty"` // invisible to searches and tools
	FAQ      *FAQ   `json:"faq,omitempty"`      // of kind FAQText
}

// FAQ is a question that people ask, with its answers. Limits are in faq.go.
type FAQ struct {
	ID          int64    `json:"id"` // a number that fits 53 bits, for the wire format
	Question    string   `json:"question"`
	Similar     []string `json:"similar,omitempty"`
	Negative    []string `json:"negative,omitempty"` // questions that it must not answer
	Answers     []string `json:"answers"`
	Strategy    string   `json:"strategy,omitempty"` // all (default) or random
	Recommended bool     `json:"recommended,omitempty"`
}
