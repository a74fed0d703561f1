package projections

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// DocumentEntry is a document that is not deleted, an FAQ entry too.
type DocumentEntry struct {
	ID          string           `json:"id"`
	Base        string           `json:"base"`
	Origin      knowledge.Origin `json:"origin"`
	Title       string           `json:"title"`
	Description string           `json:"description,omitempty"`
	FileName    string           `json:"file_name,omitempty"`
	FileType    string           `json:"file_type,omitempty"`
	URL         string           `json:"url,omitempty"`
	Channel     string           `json:"channel,omitempty"`
	Folder      string           `json:"folder,omitempty"`
	Tags        []string         `json:"tags,omitempty"` // ids; one that the base does not have is deleted
	Metadata    json.RawMessage  `json:"metadata,omitempty"`
	Process     json.RawMessage  `json:"process,omitempty"`
	Custom      json.RawMessage  `json:"custom_metadata,omitempty"`
	Content     knowledge.Blob   `json:"content,omitzero"`
	Text        knowledge.Blob   `json:"text,omitzero"` // what the parser gave, as JSON
	Stored      int64            `json:"stored"`        // bytes of content, text and pieces
	Entry       int64            `json:"entry,omitempty"`
	Disabled    bool             `json:"disabled,omitempty"`
	Pages       int              `json:"pages,omitempty"`
	Notes       []string         `json:"notes,omitempty"` // of the parser
	Course
	By        string    `json:"by,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Version   int64     `json:"version"` // of its stream
}

// Library are the documents of all bases, FAQ entries too. Index: base, status,
// file_type, origin, channel, faq (an FAQ entry), folder (its path and a slash,
// "" for the root: a folder with all below it is ">=" path/ and "<" path0), tags
// (ids, each between spaces), text (title and file name, in lower case), title,
// created_at and updated_at (unix microseconds), enabled.
//
// OwingCollection names what Ingest still owes: documents that were begun and not
// finished, also deleted ones that the index still holds.
var Library = Projection{Name: "library", Version: 1, Filter: event.Filter{Categories: []string{knowledge.Category}}, Fold: foldLibrary}

// OwingCollection is the collection, of Library, Bases, Imports and Transfers, of the streams
// that were owed work; its documents are Owing. Its id is that of the stream.
const OwingCollection = "owing"

// Owing is a stream that is owed work: see handlers.Owed.
type Owing struct {
	Category string `json:"category"`
	ID       string `json:"id"`
	Base     string `json:"base"`
}

// owe notes that a stream is owed work, or that it is not any more.
func owe(v *View, f Fact, base string, on bool) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	now := Get[Owing](v, OwingCollection, tenant, id)
	switch {
	case on && now == nil:
		Put(v, OwingCollection, tenant, id, &Owing{f.Stream.Category, id, base}, nil)
	case !on && now != nil:
		Remove(v, OwingCollection, tenant, id)
	}
}

func foldLibrary(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	d := Get[DocumentEntry](v, "", tenant, id)
	if e, ok := f.Event.(knowledge.DocumentAdded); ok && d == nil {
		d = addedEntry(e)
	}
	if d == nil {
		if _, removed := f.Event.(knowledge.DocumentRemoved); removed {
			owe(v, f, "", false)
		}
		return
	}
	d.Course.fold(f.Event)
	d.change(f.Event)
	d.Version = f.Version
	if _, deleted := f.Event.(knowledge.DocumentDeleted); deleted {
		Remove(v, "", tenant, id)
		owe(v, f, d.Base, max(d.Indexed, d.Put) > 0)
		return
	}
	Put(v, "", tenant, id, d, d.index())
	owe(v, f, d.Base, d.owing())
}

func addedEntry(e knowledge.DocumentAdded) *DocumentEntry {
	d := &DocumentEntry{ID: e.Document, Base: e.Base, Origin: e.Origin, Title: e.Title, Description: e.Description, FileName: e.FileName, FileType: e.FileType,
		URL: e.URL, Channel: e.Channel, Folder: e.Folder, Tags: e.Tags, Metadata: e.Metadata, Process: e.Process, Content: e.Content, Stored: e.Content.Size,
		Disabled: e.Disabled, By: e.By, CreatedAt: e.At, UpdatedAt: e.At}
	if e.FAQ != nil {
		d.Entry = e.FAQ.ID
	}
	return d
}

// change takes what a fact says about the document itself.
func (d *DocumentEntry) change(e any) {
	switch e := e.(type) {
	case knowledge.DocumentChanged:
		d.Title, d.Description, d.Custom, d.Folder, d.Disabled, d.UpdatedAt = e.Title, e.Description, e.Custom, e.Folder, e.Disabled, e.At
	case knowledge.DocumentTagged:
		d.Tags, d.UpdatedAt = e.Tags, e.At
	case knowledge.ContentReplaced:
		d.Content, d.UpdatedAt = e.Content, e.At
		d.Stored = e.Content.Size
		if e.FAQ != nil {
			d.Title = e.FAQ.Question
		}
	case knowledge.ReparseRequested:
		d.Process, d.UpdatedAt = e.Process, e.At
	case knowledge.Fetched:
		if e.Revision == d.Revision {
			d.Content, d.Stored = e.Content, e.Content.Size
			d.named(e.Title)
			if e.FileName != "" {
				d.FileName = e.FileName
			}
			if e.FileType != "" {
				d.FileType = e.FileType
			}
		}
	case knowledge.Parsed:
		if e.Revision == d.Revision {
			d.Text, d.Pages, d.Notes = e.Text, e.Pages, e.Notes
			d.Stored = d.Content.Size + e.Text.Size
			d.named(e.Title)
		}
	case knowledge.Chunked:
		if e.Revision == d.Revision {
			d.Stored = d.Content.Size + d.Text.Size + e.Slices.Size
		}
	case knowledge.ChunkEdited:
		d.UpdatedAt = e.At
	case knowledge.Indexed:
		if e.Revision == d.Revision {
			d.UpdatedAt = e.At
		}
	case knowledge.StageFailed:
		if d.Failed {
			d.UpdatedAt = d.DoneAt
		}
	case knowledge.IngestionCancelled:
		d.UpdatedAt = e.At
	}
}

// named takes the title that content gives itself, if nobody gave it one.
func (d *DocumentEntry) named(title string) {
	if d.Title == "" {
		d.Title = title
	}
}

func (d *DocumentEntry) index() map[string]any {
	folder := d.Folder
	if folder != "" {
		folder += "/"
	}
	return map[string]any{"base": d.Base, "status": d.Status(), "file_type": d.FileType, "origin": string(d.Origin), "channel": d.Channel,
		"faq": d.Origin == knowledge.OriginFAQ, "folder": folder, "tags": spaced(d.Tags), "title": d.Title, "enabled": !d.Disabled,
		"text": strings.ToLower(d.Title + "\n" + d.FileName), "created_at": d.CreatedAt.UnixMicro(), "updated_at": d.UpdatedAt.UnixMicro()}
}

// spaced puts a space around each, so that one can be looked for in the index.
func spaced(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	ids = slices.Sorted(slices.Values(ids))
	return " " + strings.Join(ids, " ") + " "
}
