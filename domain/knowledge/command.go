package knowledge

import (
	"time"

	"refold/domain"
)

// Command is a request to a document, or a report about one.
type Command interface{ command() }

// Add opens a document.
type Add struct{ DocumentAdded }

// Change replaces what can change without the content.
type Change struct{ DocumentChanged }

// SetTags replaces the tags.
type SetTags struct{ DocumentTagged }

// Replace begins a revision with other content; the revision is given by the
// state. Content that is the same, treated the same way, changes nothing.
type Replace struct{ ContentReplaced }

// Reparse begins a revision from the same content. If what the index has came
// from the same content, in the same way, and nobody has edited it, nothing
// follows, unless Force is set.
type Reparse struct{ ReparseRequested }

// Cancel ends the ingestion of the present revision.
type Cancel struct {
	By  string
	Now time.Time
}

// EditChunk edits one chunk of the revision that the index has. Expect, if not
// nil, is the edition that the caller has seen.
type EditChunk struct {
	ChunkEdited
	Expect *int
}

// Delete hides the document.
type Delete struct{ DocumentDeleted }

// Claim asks for a stage.
type Claim struct {
	Moment
	Stage    string
	Attempt  int
	Deadline time.Time
}

// Record reports the result of the claim with a number: one of Fetched, Parsed,
// Chunked, Embedded, Indexed, Synced, DocumentRemoved; More are those of the
// stages after it that were done at once, up to Embedded.
type Record struct {
	Claim int
	Event Event
	More  []Event
	Now   time.Time
}

// RecordFailure reports that the claim with a number came to nothing. RetryAfter
// is what the other side asks for.
type RecordFailure struct {
	Claim      int
	Code       string
	Message    string
	Transient  bool
	Moved      bool // see StageFailed
	RetryAfter time.Duration
	Now        time.Time
}

// RecordLost reports that the owner of a claim is gone, or hands it back.
type RecordLost struct {
	Moment
	Claim int
}

func (Add) command()           {}
func (Change) command()        {}
func (SetTags) command()       {}
func (Replace) command()       {}
func (Reparse) command()       {}
func (Cancel) command()        {}
func (EditChunk) command()     {}
func (Delete) command()        {}
func (Claim) command()         {}
func (Record) command()        {}
func (RecordFailure) command() {}
func (RecordLost) command()    {}

// Refusals of documents. Their codes are stable.
var (
	ErrNoDocument     = domain.Reject(domain.Missing, "knowledge_not_found", "there is no such document in a knowledge base of yours")
	ErrDocumentExists = domain.Reject(domain.Conflict, "knowledge_exists", "a document with this id exists")
	ErrNotDue         = domain.Reject(domain.Conflict, "not_due", "this work is not due: it is done, taken by another worker, or the document has moved on")
	ErrNotProcessing  = domain.Reject(domain.Conflict, "not_processing", "the document is not being processed, so there is nothing to cancel")
	ErrNotIndexed     = domain.Reject(domain.Conflict, "not_completed", "the document is still being processed; edit its chunks when that is done")
	ErrEdition        = domain.Reject(domain.Conflict, "chunk_revision_conflict", "somebody has edited this chunk since you read it; read it again and repeat the edit")
	ErrNoSuchChunk    = domain.Reject(domain.Missing, "chunk_not_found", "the document has no such chunk now; its chunks may have been made anew")
	ErrDuplicateFile  = domain.Reject(domain.Conflict, "duplicate_file", "this knowledge base has the same file under the same name")
	ErrDuplicateURL   = domain.Reject(domain.Conflict, "duplicate_url", "this knowledge base has the same address")
	ErrNotManual      = domain.Reject(domain.Invalid, "not_manual", "only the content of typed documents can be replaced")
	ErrWrongKind      = domain.Reject(domain.Invalid, "wrong_knowledge_base_type", "a knowledge base of this type does not take this: entries go to one of type faq, documents to any other")
	ErrBadURL         = domain.Reject(domain.Invalid, "bad_url", "the address must begin with http:// or https://, name a host, and hold no user name or password")
	ErrBadFolder      = domain.Reject(domain.Invalid, "bad_folder_path", "a folder path has at most 1024 characters: parts separated by /, at most 16 of at most 128 characters each, without . and ..")
	ErrDuplicateEntry = domain.Reject(domain.Invalid, "duplicate_question", "this knowledge base has an entry that asks the same; change that one")
)
