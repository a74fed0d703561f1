package knowledge

import (
	"encoding/json"
	"time"
)

// Limits of a document, in runes where not said otherwise.
const (
	MaxTitle       = 500
	MaxFileName    = 255
	MaxFileType    = 32
	MaxChannel     = 32
	MaxManual      = 200_000
	MaxManualBytes = 4 * MaxManual
	MaxFolder      = 1024
	MaxFolderPart  = 128
	MaxFolderDepth = 16
	MaxCustom      = 64 << 10 // bytes of custom metadata
	MaxURL         = 2048     // bytes
	MaxDocTags     = 50
	MaxChunkText   = 50_000 // of a chunk that a person has edited
)

// Category is the category of the streams of documents; the stream's id is the
// document's, a UUID. Facts name the base in their correlation.
const Category = "document"

// Origin says where a document comes from, and so which stages it goes through.
type Origin string

// The origins.
const (
	OriginFile    Origin = "file"
	OriginURL     Origin = "url"
	OriginFileURL Origin = "file_url" // an address that is known to be a file's
	OriginManual  Origin = "manual"   // typed here, Markdown
	OriginFAQ     Origin = "faq"      // one question with its answers
)

// Fetched tells whether the content has to be fetched first.
func (o Origin) Fetched() bool { return o == OriginURL || o == OriginFileURL }

// Event is a fact about a document. The set is closed; wire.go lists it.
type Event interface{ event() }

// Blob names content in the blob store. The zero value is none.
type Blob struct {
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes
}

// Recipe is how a revision becomes chunks: the snapshot that every later step
// needs, so that live settings are never looked at. What two revisions have in
// common is not made again.
type Recipe struct {
	Parser    string   `json:"parser"` // version of the rules of reading files, see Parsing
	Chunker   string   `json:"chunker"`
	Chunking  Chunking `json:"chunking"`
	Vector    bool     `json:"vector,omitempty"`          // vectors are wanted
	Embedding string   `json:"embedding_model,omitempty"` // configured name, "" = the default one
	Vectors   string   `json:"vectors,omitempty"`         // what the model's vectors are called; "" if there was none
	FAQ       string   `json:"faq,omitempty"`             // index mode, of FAQ entries
	Separate  bool     `json:"faq_separate,omitempty"`    // every question of an entry is found by itself
}

// Versions of the rules that turn files into text and text into pieces. Whoever
// changes what comes out counts them up; documents that are read again are then
// made anew.
const (
	Parsing  = "2"
	Cutting  = "1"
	Mentions = "1" // of the chunks about tables and of FAQ entries
)

// DocumentAdded opens the stream. Content is the file or the typed text, and not
// known yet of an address, unless the document is a copy of another one.
type DocumentAdded struct {
	Document    string          `json:"document"`
	Base        string          `json:"base"`
	Origin      Origin          `json:"origin"`
	Title       string          `json:"title"`
	Description string          `json:"description,omitempty"`
	FileName    string          `json:"file_name,omitempty"`
	FileType    string          `json:"file_type,omitempty"` // extension, lower case, without the dot
	URL         string          `json:"url,omitempty"`
	Channel     string          `json:"channel,omitempty"`
	Folder      string          `json:"folder,omitempty"`
	Tags        []string        `json:"tags,omitempty"` // ids, sorted
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Process     json.RawMessage `json:"process,omitempty"` // what the request said about processing
	Content     Blob            `json:"content,omitzero"`
	FAQ         *FAQ            `json:"faq,omitempty"`
	Draft       bool            `json:"draft,omitempty"`
	Disabled    bool            `json:"disabled,omitempty"`
	Import      string          `json:"import,omitempty"` // that it came with
	Recipe      Recipe          `json:"recipe"`
	By          string          `json:"by,omitempty"`
	At          time.Time       `json:"at"`
}

// DocumentChanged replaces what can change without the content.
type DocumentChanged struct {
	Title       string          `json:"title"`
	Description string          `json:"description,omitempty"`
	Custom      json.RawMessage `json:"custom_metadata,omitempty"` // an object
	Folder      string          `json:"folder,omitempty"`
	Disabled    bool            `json:"disabled,omitempty"`
	By          string          `json:"by,omitempty"`
	At          time.Time       `json:"at"`
}

// DocumentTagged replaces the tags.
type DocumentTagged struct {
	Tags []string  `json:"tags"` // ids, sorted
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
}

// ContentReplaced begins a new revision with other content, or another entry. A
// draft is not searched.
type ContentReplaced struct {
	Revision int       `json:"revision"`
	Content  Blob      `json:"content,omitzero"`
	FAQ      *FAQ      `json:"faq,omitempty"`
	Draft    bool      `json:"draft,omitempty"`
	Recipe   Recipe    `json:"recipe"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// ReparseRequested begins a new revision from the same content; an address is
// fetched again. Force makes everything anew, also what would come out the same.
type ReparseRequested struct {
	Revision int             `json:"revision"`
	Recipe   Recipe          `json:"recipe"`
	Process  json.RawMessage `json:"process,omitempty"`
	Force    bool            `json:"force,omitempty"`
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at"`
}

// StageStarted claims a stage for a process. The claim is void at Deadline, or as
// soon as its owner is known to be gone. Number counts the claims of the document
// from 1, Attempt those of the stage since it last succeeded.
type StageStarted struct {
	Number   int       `json:"number"`
	Revision int       `json:"revision"`
	Stage    string    `json:"stage"`
	Attempt  int       `json:"attempt"`
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// Fetched says what an address gave. URL is where it came from in the end.
type Fetched struct {
	Revision int       `json:"revision"`
	Content  Blob      `json:"content"`
	FileName string    `json:"file_name,omitempty"`
	FileType string    `json:"file_type,omitempty"`
	Title    string    `json:"title,omitempty"`
	URL      string    `json:"url,omitempty"`
	At       time.Time `json:"at"`
}

// Parsed says that a file has become text. Text is what the parser gave, as JSON.
type Parsed struct {
	Revision int       `json:"revision"`
	Text     Blob      `json:"text"`
	Title    string    `json:"title,omitempty"` // as the file names itself
	Runes    int       `json:"runes"`
	Pages    int       `json:"pages,omitempty"`
	Tables   int       `json:"tables,omitempty"`
	Encoding string    `json:"encoding,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	At       time.Time `json:"at"`
}

// Chunked says that text has become pieces. Slices is the list, as JSON of []Slice.
type Chunked struct {
	Revision int       `json:"revision"`
	Slices   Blob      `json:"slices"`
	Chunks   int       `json:"chunks"`   // all
	Searched int       `json:"searched"` // those that searches find
	Tokens   int       `json:"tokens"`   // of those
	At       time.Time `json:"at"`
}

// Embedded says that every piece that searches find has a vector of Model, or
// that it needs none.
type Embedded struct {
	Revision int       `json:"revision"`
	Model    string    `json:"model,omitempty"`   // what the vectors are called
	Skipped  string    `json:"skipped,omitempty"` // why there are none: no_model, not_wanted
	Vectors  int       `json:"vectors,omitempty"` // made now
	Kept     int       `json:"kept,omitempty"`    // that were there
	At       time.Time `json:"at"`
}

// Why there are no vectors.
const (
	SkippedNoModel   = "no_model"
	SkippedNotWanted = "not_wanted"
)

// Indexed says that the index holds exactly this revision. It is the end of its
// ingestion. Change is how many changes of the document the index knows.
type Indexed struct {
	Revision int       `json:"revision"`
	Chunks   int       `json:"chunks"`
	Change   int       `json:"change,omitempty"`
	At       time.Time `json:"at"`
}

// Synced says that the index knows the first so many changes of the document
// that are none of its content: title, tags, chunks that a person has edited.
type Synced struct {
	Change int       `json:"change"`
	At     time.Time `json:"at"`
}

// StageFailed ends an attempt at a stage. RetryAt is set if another one follows;
// if not, the ingestion of the revision has failed. Moved says that the attempt
// got on, and so does not count as one of those that may fail.
type StageFailed struct {
	Revision  int       `json:"revision"`
	Stage     string    `json:"stage"`
	Attempt   int       `json:"attempt"`
	Code      string    `json:"code"`
	Message   string    `json:"message"` // for people
	Transient bool      `json:"transient,omitempty"`
	Moved     bool      `json:"moved,omitempty"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	At        time.Time `json:"at"`
}

// Codes of attempts that ended without a result, and not by a failure.
const (
	CodeLost       = "lost"       // its process is gone
	CodeReturned   = "returned"   // its process is ending, or was told to leave it
	CodeSuperseded = "superseded" // its result belongs to an earlier revision, or to what was deleted
)

// IngestionCancelled ends the ingestion of a revision: a fence after which no
// stage of it begins. An earlier revision that the index has stays there.
type IngestionCancelled struct {
	Revision int       `json:"revision"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// ChunkEdited replaces the content of one chunk, or switches it on or off, or
// takes it out for good. Edition counts the edits of the chunk from 1.
type ChunkEdited struct {
	Revision int       `json:"revision"`
	Index    int       `json:"index"`
	Chunk    string    `json:"chunk"`
	Edition  int       `json:"edition"`
	Content  string    `json:"content"`
	Tokens   int       `json:"tokens,omitempty"`
	Disabled bool      `json:"disabled,omitempty"`
	Deleted  bool      `json:"deleted,omitempty"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// DocumentDeleted hides the document: a fence. The index forgets it next.
type DocumentDeleted struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// DocumentRemoved says that the index has forgotten the document, because it was
// deleted or has become a draft.
type DocumentRemoved struct {
	At time.Time `json:"at"`
}

func (DocumentAdded) event()      {}
func (DocumentChanged) event()    {}
func (DocumentTagged) event()     {}
func (ContentReplaced) event()    {}
func (ReparseRequested) event()   {}
func (StageStarted) event()       {}
func (Fetched) event()            {}
func (Parsed) event()             {}
func (Chunked) event()            {}
func (Embedded) event()           {}
func (Indexed) event()            {}
func (Synced) event()             {}
func (StageFailed) event()        {}
func (IngestionCancelled) event() {}
func (ChunkEdited) event()        {}
func (DocumentDeleted) event()    {}
func (DocumentRemoved) event()    {}
