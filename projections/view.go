package projections

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"refold/domain/event"
	"refold/domain/key"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tenant"
)

// Fact is a decoded event of any aggregate that is projected: Event is an Event
// of run, session, key or tenant.
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
	}
	return f, nil
}

// View is what a fold sees and changes: the documents of its projection, within
// one batch. Documents are loaded when they are first asked for.
type View struct {
	ctx        context.Context
	documents  Documents
	projection string
	cache      map[Key]*entry
	order      []Key
}

type entry struct {
	doc     Document
	value   any // decoded body, kept while the batch is folded
	exists  bool
	changed bool
}

type readFailed struct{ err error }

func (v *View) entry(collection, tenant, id string) *entry {
	if collection != "" {
		collection = "." + collection
	}
	k := Key{v.projection + collection, tenant, id}
	if e, ok := v.cache[k]; ok {
		return e
	}
	docs, err := v.documents.Get(v.ctx, k)
	if err != nil {
		panic(readFailed{fmt.Errorf("load %s %s: %w", k.Collection, id, err)})
	}
	e := &entry{doc: Document{Key: k}}
	if len(docs) == 1 {
		e.doc, e.exists = docs[0], true
	}
	v.cache[k] = e
	v.order = append(v.order, k)
	return e
}

// Get gives a document for changing, or nil. collection "" is the projection's
// main one.
func Get[T any](v *View, collection, tenant, id string) *T {
	e := v.entry(collection, tenant, id)
	if !e.exists {
		return nil
	}
	if e.value == nil {
		value := new(T)
		if err := json.Unmarshal(e.doc.Body, value); err != nil {
			panic(fmt.Sprintf("document %s %s: %v", e.doc.Collection, id, err))
		}
		e.value = value
	}
	return e.value.(*T)
}

// Put stores a document with its index fields.
func Put[T any](v *View, collection, tenant, id string, value *T, index map[string]any) {
	e := v.entry(collection, tenant, id)
	e.value, e.exists, e.changed = value, true, true
	e.doc.Index = index
}

// Remove deletes a document.
func Remove(v *View, collection, tenant, id string) {
	e := v.entry(collection, tenant, id)
	e.value, e.exists, e.changed = nil, false, true
}

func (v *View) batch(projection string, from, to event.Position) Batch {
	b := Batch{Projection: projection, From: from, To: to}
	for _, k := range v.order {
		e := v.cache[k]
		switch {
		case !e.changed:
		case !e.exists:
			b.Delete = append(b.Delete, k)
		default:
			e.doc.Body = encode(e.value)
			b.Put = append(b.Put, e.doc)
		}
	}
	return b
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

var facts = []string{session.Category, run.Category, key.Category, tenant.Category}
