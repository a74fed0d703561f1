package projections

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"refold/domain/event"
	"refold/domain/key"
	"refold/domain/knowledge"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tenant"
)

// Fact is a decoded event of any aggregate that is projected: Event is an Event
// of run, session, key, tenant or knowledge.
type Fact struct {
	event.Raw
	Event any
}

// Read decodes a stored event of any category that is projected.
func Read(raw event.Raw) (Fact, error) {
	f := Fact{Raw: raw}
	switch raw.Stream.Category {
	case run.Category:
		rec, err := event.Record(run.Codec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case session.Category:
		rec, err := event.Record(session.Codec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case key.Category:
		rec, err := event.Record(key.Codec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case tenant.Category:
		rec, err := event.Record(tenant.Codec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case knowledge.Category:
		rec, err := event.Record(knowledge.Codec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case knowledge.BaseCategory:
		rec, err := event.Record(knowledge.BaseCodec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case knowledge.TransferCategory:
		rec, err := event.Record(knowledge.TransferCodec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	case knowledge.ImportCategory:
		rec, err := event.Record(knowledge.ImportCodec, raw)
		if err != nil {
			return f, err
		}
		f.Event = rec.Event
	}
	return f, nil
}

// View is what a fold sees and changes: the documents of its projection as they
// stand at its checkpoint. They are loaded when they are first asked for, and
// some are kept for the next batch: while the checkpoint moves by this view's
// own commits only, nobody else has changed them.
type View struct {
	ctx        context.Context
	documents  Documents
	projection string
	cache      map[Key]*entry
	touched    []*entry // in this batch, in order
	batchNo    int
	bytes      int // of the bodies that are kept
}

type entry struct {
	doc     Document
	value   any // decoded body
	exists  bool
	loaded  bool // exists is what the store says
	changed bool
	batchNo int // that touched it last
	bytes   int // counted in the view
}

// What a view keeps at most between two batches.
const (
	maxKept      = 512
	maxKeptBytes = 512 << 10
)

func newView(documents Documents, projection string) *View {
	return &View{documents: documents, projection: projection, cache: map[Key]*entry{}, batchNo: 1}
}

type readFailed struct{ err error }

func (v *View) entry(collection, tenant, id string, load bool) *entry {
	name := v.projection
	if collection != "" {
		name += "." + collection
	}
	k := Key{name, tenant, id}
	e := v.cache[k]
	if e == nil {
		e = &entry{doc: Document{Key: k}}
		v.cache[k] = e
	}
	if load && !e.loaded {
		docs, err := v.documents.Get(v.ctx, k)
		if err != nil {
			panic(readFailed{fmt.Errorf("load %s %s: %w", k.Collection, id, err)})
		}
		if len(docs) == 1 {
			e.doc, e.exists = docs[0], true
			v.count(e)
		}
	}
	e.loaded = true // or about to be overwritten
	if e.batchNo != v.batchNo {
		e.batchNo = v.batchNo
		v.touched = append(v.touched, e)
	}
	return e
}

func (v *View) count(e *entry) {
	v.bytes += len(e.doc.Body) - e.bytes
	e.bytes = len(e.doc.Body)
}

// Get gives a document for changing, or nil. collection "" is the projection's
// main one.
func Get[T any](v *View, collection, tenant, id string) *T {
	e := v.entry(collection, tenant, id, true)
	if !e.exists {
		return nil
	}
	if e.value == nil {
		value := new(T)
		if err := event.Unmarshal(e.doc.Body, value); err != nil {
			panic(fmt.Sprintf("document %s %s: %v", e.doc.Collection, id, err))
		}
		e.value, e.doc.Body = value, nil
	}
	return e.value.(*T)
}

// Put stores a document with its index fields. What Get gave may be changed only
// if it is put.
func Put[T any](v *View, collection, tenant, id string, value *T, index map[string]any) {
	e := v.entry(collection, tenant, id, false)
	e.value, e.exists, e.changed = value, true, true
	e.doc.Index = index
}

// Remove deletes a document.
func Remove(v *View, collection, tenant, id string) {
	e := v.entry(collection, tenant, id, false)
	e.value, e.exists, e.changed = nil, false, true
}

// changed tells whether there is anything to commit.
func (v *View) changed() bool {
	for _, e := range v.touched {
		if e.changed {
			return true
		}
	}
	return false
}

// batch is what the folds since the last one have changed.
func (v *View) batch(from, to event.Position) Batch {
	b := Batch{Projection: v.projection, From: from, To: to}
	for _, e := range v.touched {
		switch {
		case !e.changed:
		case !e.exists:
			b.Delete = append(b.Delete, e.doc.Key)
		default:
			e.doc.Body = encode(e.value)
			b.Put = append(b.Put, e.doc)
		}
	}
	return b
}

// committed says that the last batch stands. The view goes on from there.
func (v *View) committed() {
	for _, e := range v.touched {
		if e.changed {
			v.count(e)
			e.changed, e.doc.Body, e.doc.Index = false, nil, nil
		}
	}
	v.batchNo++
	v.touched = v.touched[:0]
	if len(v.cache) <= maxKept && v.bytes <= maxKeptBytes {
		return
	}
	for k, e := range v.cache { // what the last batch did not need
		if e.batchNo < v.batchNo-1 {
			v.bytes -= e.bytes
			delete(v.cache, k)
		}
	}
	if len(v.cache) > maxKept/2 || v.bytes > maxKeptBytes/2 {
		clear(v.cache)
		v.bytes = 0
	}
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // plain data: a programming error
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// preview cuts text to n runes.
func preview(text string, n int) string {
	if len(text) <= n {
		return text
	}
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return strings.TrimSpace(string(r[:n])) + "…"
}

func sessionOf(f Fact) string { return f.Meta.Correlation }

var facts = []string{session.Category, run.Category, key.Category, tenant.Category, knowledge.Category, knowledge.BaseCategory, knowledge.ImportCategory, knowledge.TransferCategory}
