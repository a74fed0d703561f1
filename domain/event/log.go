package event

import (
	"context"
	"fmt"
	"slices"
)

// Log is a Store seen through one aggregate's codec: typed events in and out.
// Decoding and upcasting happen here and nowhere else.
type Log[E any] struct {
	Store    Store
	Codec    *Codec[E]
	Category string
}

// Fact is a typed event on its way into the log, with the envelope that the
// command chose: a fresh ID, the time, the metadata.
type Fact[E any] struct {
	ID    string
	Event E
}

// Stream names the aggregate's stream for a tenant and id.
func (l Log[E]) Stream(tenant, id string) Stream {
	return Stream{Tenant: tenant, Category: l.Category, ID: id}
}

// Load gives all events of a stream with version > after, in order.
func (l Log[E]) Load(ctx context.Context, tenant, id string, after int64) ([]Recorded[E], error) {
	return l.load(ctx, tenant, id, after, nil)
}

// Pick gives the events of a stream that have one of the wire names, in order. The
// others are not decoded.
func (l Log[E]) Pick(ctx context.Context, tenant, id string, names ...string) ([]Recorded[E], error) {
	return l.load(ctx, tenant, id, 0, names)
}

func (l Log[E]) load(ctx context.Context, tenant, id string, after int64, names []string) ([]Recorded[E], error) {
	var out []Recorded[E]
	for {
		page, err := l.Store.Read(ctx, l.Stream(tenant, id), after, 1000)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", l.Category, id, err)
		}
		for _, r := range page {
			after = r.Version
			if names != nil && !slices.Contains(names, r.Type) {
				continue
			}
			rec, err := Record(l.Codec, r)
			if err != nil {
				return nil, err
			}
			out = append(out, rec)
		}
		if len(page) < 1000 {
			return out, nil
		}
	}
}

// Append encodes and writes facts at the expected version and gives them back
// as recorded. All facts carry the same time and metadata.
func (l Log[E]) Append(ctx context.Context, tenant, id string, expect Expect, env Envelope, facts ...Fact[E]) ([]Recorded[E], error) {
	stream := l.Stream(tenant, id)
	news := make([]New, len(facts))
	for i, f := range facts {
		name, schema, data, err := l.Codec.Encode(f.Event)
		if err != nil {
			return nil, err
		}
		news[i] = New{ID: f.ID, Type: name, Schema: schema, Time: env.Time, Meta: env.Meta, Data: data}
	}
	res, err := l.Store.Append(ctx, stream, expect, news...)
	if err != nil {
		return nil, fmt.Errorf("append to %s %s: %w", l.Category, id, err)
	}
	out := make([]Recorded[E], len(facts))
	for i, f := range facts {
		n := news[i]
		out[i] = Recorded[E]{ID: n.ID, Stream: stream, Version: res.Version - int64(len(facts)-1-i), Type: n.Type,
			Schema: n.Schema, Time: n.Time, Meta: n.Meta, Event: f.Event}
	}
	out[len(out)-1].Position = res.Position
	return out, nil
}
