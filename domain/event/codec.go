package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Upcast turns the JSON of one schema into the JSON of the next.
type Upcast func(json.RawMessage) (json.RawMessage, error)

// Entry pairs a wire name and its current schema number with a Go type and the
// upcasters from older schemas: Upcasts[0] lifts schema 1 to 2, and so on, so
// there are always Schema-1 of them.
type Entry[E any] struct {
	Name    string
	Schema  int
	Decode  func([]byte) (E, error)
	Upcasts []Upcast
	goType  reflect.Type
}

// Of makes the Entry for the Go type T under a wire name.
func Of[E any, T any](name string, schema int, upcasts ...Upcast) Entry[E] {
	read := readerOf(reflect.TypeFor[T]())
	scratch := sync.Pool{New: func() any { return new(T) }}
	return Entry[E]{Name: name, Schema: schema, Upcasts: upcasts, goType: reflect.TypeFor[T](),
		Decode: func(b []byte) (E, error) {
			v := scratch.Get().(*T)
			defer func() {
				*v = *new(T)
				scratch.Put(v)
			}()
			if decodeInto(read, b, reflect.ValueOf(v).Elem()) {
				return any(*v).(E), nil
			}
			*v = *new(T)
			if err := json.Unmarshal(b, v); err != nil {
				var zero E
				return zero, err
			}
			return any(*v).(E), nil
		}}
}

// Codec is one aggregate's table of events. Build it once with NewCodec.
type Codec[E any] struct {
	byName map[string]Entry[E]
	byType map[reflect.Type]Entry[E]
	names  []string
}

// NewCodec checks the table: unique names and types, the right number of
// upcasters. A mistake in it is a programming error and panics at start-up.
func NewCodec[E any](entries ...Entry[E]) *Codec[E] {
	c := &Codec[E]{byName: map[string]Entry[E]{}, byType: map[reflect.Type]Entry[E]{}}
	for _, e := range entries {
		if _, dup := c.byName[e.Name]; dup {
			panic("event: wire name twice: " + e.Name)
		}
		if _, dup := c.byType[e.goType]; dup {
			panic("event: Go type twice: " + e.goType.String())
		}
		if len(e.Upcasts) != e.Schema-1 {
			panic(fmt.Sprintf("event: %s has schema %d and %d upcasters", e.Name, e.Schema, len(e.Upcasts)))
		}
		c.byName[e.Name], c.byType[e.goType] = e, e
		c.names = append(c.names, e.Name)
	}
	return c
}

// Names lists the wire names in table order.
func (c *Codec[E]) Names() []string { return c.names }

// Schema is the current schema number of a wire name, 0 if unknown.
func (c *Codec[E]) Schema(name string) int { return c.byName[name].Schema }

// Encode gives the wire name, schema and JSON of an event.
func (c *Codec[E]) Encode(e E) (name string, schema int, data []byte, err error) {
	entry, ok := c.byType[reflect.TypeOf(e)]
	if !ok {
		return "", 0, nil, fmt.Errorf("%w: Go type %T is in no table", ErrUnknownType, e)
	}
	data, err = marshal(e)
	if err != nil {
		return "", 0, nil, fmt.Errorf("encode %s: %w", entry.Name, err)
	}
	return entry.Name, entry.Schema, data, nil
}

// Decode gives the typed event for stored bytes, lifted to the current schema.
func (c *Codec[E]) Decode(name string, schema int, data []byte) (E, error) {
	var zero E
	entry, ok := c.byName[name]
	if !ok {
		return zero, fmt.Errorf("%w %q: written by a newer refold; upgrade this one", ErrUnknownType, name)
	}
	if schema > entry.Schema {
		return zero, fmt.Errorf("%w: %s has schema %d, this build reads up to %d; upgrade refold", ErrNewerSchema, name, schema, entry.Schema)
	}
	if schema < 1 {
		return zero, fmt.Errorf("%w: %s has schema %d", ErrCorrupt, name, schema)
	}
	raw := json.RawMessage(data)
	for s := schema; s < entry.Schema; s++ {
		var err error
		if raw, err = entry.Upcasts[s-1](raw); err != nil {
			return zero, fmt.Errorf("%w: lift %s from schema %d: %v", ErrCorrupt, name, s, err)
		}
	}
	e, err := entry.Decode(raw)
	if err != nil {
		return zero, fmt.Errorf("%w: %s: %v", ErrCorrupt, name, err)
	}
	return e, nil
}

// Recorded is a stored event with its typed content.
type Recorded[E any] struct {
	ID       string
	Stream   Stream
	Version  int64
	Position Position
	Type     string
	Schema   int
	Time     time.Time
	Meta     Metadata
	Event    E
}

// Record decodes one stored event. One that is damaged is a *DamagedError.
func Record[E any](c *Codec[E], r Raw) (Recorded[E], error) {
	e, err := c.Decode(r.Type, r.Schema, r.Data)
	if errors.Is(err, ErrCorrupt) {
		return Recorded[E]{}, Damaged(r, err)
	}
	if err != nil {
		return Recorded[E]{}, fmt.Errorf("event %d of %s at %s: %w", r.Version, r.Stream, r.Position, err)
	}
	return Recorded[E]{ID: r.ID, Stream: r.Stream, Version: r.Version, Position: r.Position, Type: r.Type,
		Schema: r.Schema, Time: r.Time, Meta: r.Meta, Event: e}, nil
}

// marshal is the one place where events are encoded, and Of where they are decoded.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
