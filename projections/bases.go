package projections

import (
	"maps"
	"slices"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// BaseEntry is a knowledge base that is not deleted, with counts.
type BaseEntry struct {
	ID          string               `json:"id"`
	Name        string               `json:"name"`
	Kind        string               `json:"kind"`
	Description string               `json:"description,omitempty"`
	Settings    knowledge.Settings   `json:"settings"`
	By          string               `json:"by,omitempty"`
	Pins        map[string]time.Time `json:"pins,omitempty"` // by who has pinned it
	Tags        []TagEntry           `json:"tags,omitempty"` // oldest first
	Documents   int                  `json:"documents"`      // FAQ entries too
	Chunks      int                  `json:"chunks"`
	Processing  int                  `json:"processing"` // documents on their way
	CreatedAt   time.Time            `json:"created_at"`
	UpdatedAt   time.Time            `json:"updated_at"`
	Version     int64                `json:"version"` // of its stream
}

// TagEntry is a tag with counts.
type TagEntry struct {
	ID        string    `json:"id"`
	Number    int64     `json:"number"`
	Name      string    `json:"name"`
	Color     string    `json:"color,omitempty"`
	Order     int       `json:"order,omitempty"`
	Documents int       `json:"documents"`
	Chunks    int       `json:"chunks"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Capabilities says by what a base can be searched. Vectors are searched if
// there is a model for them.
func (b BaseEntry) Capabilities() map[string]bool {
	s := b.Settings.Strategy
	return map[string]bool{"vector": s.Vector, "keyword": s.Keyword, "wiki": s.Wiki, "graph": s.Graph, "faq": b.Kind == knowledge.KindFAQ}
}

// Bases are the knowledge bases. Index: name, kind, text (name and description,
// in lower case), created_at and updated_at (unix microseconds). Collections:
// FolderCollection, OwingCollection (bases that were deleted and are not empty, or
// to which something was added after that).
var Bases = Projection{Name: "knowledge_bases", Version: 2,
	Filter: event.Filter{Categories: []string{knowledge.BaseCategory, knowledge.Category}}, Fold: foldBases}

// FolderCollection has a document for each base that has folders: Folders.
const FolderCollection = "folders"

// Folders count the documents that lie directly in each folder, by its path, ""
// is the root. Folders that hold others only are not in it.
type Folders struct {
	Documents map[string]int `json:"documents"`
}

// countedCollection has what a document adds to the counts of its base.
const countedCollection = "counted"

type counted struct {
	Base   string   `json:"base"`
	Tags   []string `json:"tags,omitempty"`
	Folder string   `json:"folder,omitempty"`
	FAQ    bool     `json:"faq,omitempty"`
	Course
}

func foldBases(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	if f.Stream.Category == knowledge.Category {
		foldCounts(v, f)
		return
	}
	b := Get[BaseEntry](v, "", tenant, id)
	switch e := f.Event.(type) {
	case knowledge.BaseCreated:
		b = &BaseEntry{ID: id, Name: e.Name, Kind: e.Kind, Description: e.Description, Settings: e.Settings, By: e.By, CreatedAt: e.At, UpdatedAt: e.At}
	case knowledge.BaseDeleted:
		Remove(v, "", tenant, id)
		Remove(v, FolderCollection, tenant, id)
		owe(v, f, id, true)
		return
	case knowledge.BaseEmptied:
		owe(v, f, id, false)
		return
	}
	if b == nil {
		return
	}
	b.change(f.Event)
	b.Version = f.Version
	putBase(v, tenant, b)
}

func putBase(v *View, tenant string, b *BaseEntry) {
	Put(v, "", tenant, b.ID, b, map[string]any{"name": b.Name, "kind": b.Kind, "text": strings.ToLower(b.Name + "\n" + b.Description),
		"created_at": b.CreatedAt.UnixMicro(), "updated_at": b.UpdatedAt.UnixMicro()})
}

func (b *BaseEntry) change(e any) {
	switch e := e.(type) {
	case knowledge.BaseChanged:
		b.Name, b.Description, b.Settings, b.UpdatedAt = e.Name, e.Description, e.Settings, e.At
	case knowledge.BasePinned:
		b.Pins = maps.Clone(b.Pins)
		if b.Pins == nil {
			b.Pins = map[string]time.Time{}
		}
		b.Pins[e.By] = e.At
	case knowledge.BaseUnpinned:
		b.Pins = maps.Clone(b.Pins)
		delete(b.Pins, e.By)
	case knowledge.TagCreated:
		b.Tags = append(b.Tags, TagEntry{ID: e.Tag, Number: e.Number, Name: e.Name, Color: e.Color, Order: e.Order, CreatedAt: e.At, UpdatedAt: e.At})
	case knowledge.TagChanged:
		b.tag(e.Tag, func(t *TagEntry) { t.Name, t.Color, t.Order, t.UpdatedAt = e.Name, e.Color, e.Order, e.At })
	case knowledge.TagDeleted:
		b.Tags = slices.DeleteFunc(b.Tags, func(t TagEntry) bool { return t.ID == e.Tag })
	}
}

func (b *BaseEntry) tag(id string, change func(*TagEntry)) {
	for i := range b.Tags {
		if b.Tags[i].ID == id {
			change(&b.Tags[i])
		}
	}
}

// foldCounts brings the counts of a base in line with a fact about one of its
// documents.
func foldCounts(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	d := Get[counted](v, countedCollection, tenant, id)
	var before *counted
	if d != nil {
		old := *d
		before = &old
	}
	switch e := f.Event.(type) {
	case knowledge.DocumentAdded:
		// The base is made before what is in it, so it was deleted meanwhile.
		if Get[BaseEntry](v, "", tenant, e.Base) == nil && Get[Owing](v, OwingCollection, tenant, e.Base) == nil {
			Put(v, OwingCollection, tenant, e.Base, &Owing{knowledge.BaseCategory, e.Base, e.Base}, nil)
		}
		d = &counted{Base: e.Base, Tags: e.Tags, Folder: e.Folder, FAQ: e.Origin == knowledge.OriginFAQ}
	case knowledge.DocumentDeleted:
		d = nil
	case knowledge.DocumentChanged:
		if d != nil {
			d.Folder = e.Folder
		}
	case knowledge.DocumentTagged:
		if d != nil {
			d.Tags = e.Tags
		}
	}
	if d != nil {
		d.fold(f.Event)
		Put(v, countedCollection, tenant, id, d, nil)
	} else if before != nil {
		Remove(v, countedCollection, tenant, id)
	}
	count(v, tenant, before, d)
	refolder(v, tenant, before, d)
}

func count(v *View, tenant string, before, after *counted) {
	var b *BaseEntry
	changed := false
	add := func(d *counted, sign int) {
		if d == nil {
			return
		}
		if b == nil {
			if b = Get[BaseEntry](v, "", tenant, d.Base); b == nil {
				return // deleted
			}
		}
		b.Documents += sign
		b.Chunks += sign * d.Chunks
		if d.processing() {
			b.Processing += sign
		}
		for _, id := range d.Tags {
			b.tag(id, func(t *TagEntry) { t.Documents, t.Chunks = t.Documents+sign, t.Chunks+sign*d.Chunks })
		}
		changed = true
	}
	if before != nil && after != nil && before.Chunks == after.Chunks && before.processing() == after.processing() && slices.Equal(before.Tags, after.Tags) {
		return
	}
	add(before, -1)
	add(after, 1)
	if changed {
		putBase(v, tenant, b)
	}
}

// refolder counts the documents in folders.
func refolder(v *View, tenant string, before, after *counted) {
	if before != nil && after != nil && before.Folder == after.Folder {
		return
	}
	for _, c := range []struct {
		d    *counted
		sign int
	}{{before, -1}, {after, 1}} {
		if c.d == nil || c.d.FAQ {
			continue
		}
		folders := Get[Folders](v, FolderCollection, tenant, c.d.Base)
		if folders == nil {
			if c.sign < 0 {
				continue // the base is deleted
			}
			folders = &Folders{Documents: map[string]int{}}
		}
		if folders.Documents[c.d.Folder] += c.sign; folders.Documents[c.d.Folder] <= 0 {
			delete(folders.Documents, c.d.Folder)
		}
		Put(v, FolderCollection, tenant, c.d.Base, folders, nil)
	}
}
