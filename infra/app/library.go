package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
	"refold/projections"
)

// shelves read the knowledge of a tenant from the read models. What tools and
// workers need of it is in the small types around it.
type shelves struct {
	documents projections.Documents
	engine    *projections.Engine
}

// get gives one document of a read model, nil if there is none.
func get[T any](ctx context.Context, s *shelves, p projections.Projection, tenant string, ids ...string) (map[string]T, error) {
	keys := make([]projections.Key, len(ids))
	for i, id := range ids {
		keys[i] = projections.Key{Collection: p.ID(), Tenant: tenant, ID: id}
	}
	docs, err := s.documents.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]T, len(docs))
	for _, d := range docs {
		var v T
		if err := event.Unmarshal(d.Body, &v); err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.Name, d.ID, err)
		}
		out[d.ID] = v
	}
	return out, nil
}

// each calls fn for the documents of a query, page by page, until it says false.
func each[T any](ctx context.Context, s *shelves, p projections.Projection, q projections.Query, fn func(T) (more bool, err error)) error {
	q.Collection = p.ID()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	for {
		page, err := s.documents.Find(ctx, q)
		if err != nil {
			return err
		}
		for _, d := range page.Documents {
			var v T
			if err := event.Unmarshal(d.Body, &v); err != nil {
				return fmt.Errorf("%s %s: %w", p.Name, d.ID, err)
			}
			if more, err := fn(v); err != nil || !more {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

func is(field string, value any) projections.Where {
	return projections.Where{Field: field, Op: "=", Value: value}
}

// holdings is the handlers.Holdings of the read models.
type holdings struct{ *shelves }

var _ handlers.Holdings = holdings{}

// Documents implements handlers.Holdings.
func (h holdings) Documents(ctx context.Context, tenant, base string, upTo event.Position, fn func(id string) error) error {
	if err := h.engine.Await(ctx, projections.Library, upTo); err != nil {
		return err
	}
	q := projections.Query{Tenant: tenant, Where: []projections.Where{is("base", base)}}
	return each(ctx, h.shelves, projections.Library, q, func(d projections.DocumentEntry) (bool, error) { return true, fn(d.ID) })
}

// Entries implements handlers.Holdings.
func (h holdings) Entries(ctx context.Context, tenant, base string, upTo event.Position, fn func(handlers.HeldEntry) error) error {
	if err := h.engine.Await(ctx, projections.FAQEntries, upTo); err != nil {
		return err
	}
	q := projections.Query{Tenant: tenant, Where: []projections.Where{is("base", base)}}
	return each(ctx, h.shelves, projections.FAQEntries, q, func(e projections.FAQEntry) (bool, error) {
		return true, fn(handlers.HeldEntry{Number: e.ID, Question: e.Question})
	})
}

// library is the tools.Library of the read models.
type library struct{ *shelves }

var _ tools.Library = library{}

// Documents implements tools.Library.
func (l library) Documents(ctx context.Context, tenant string, ids ...string) ([]tools.DocumentInfo, error) {
	found, err := get[projections.DocumentEntry](ctx, l.shelves, projections.Library, tenant, ids...)
	if err != nil {
		return nil, err
	}
	var out []tools.DocumentInfo
	for _, d := range found {
		info := tools.DocumentInfo{ID: d.ID, Base: d.Base, Title: d.Title, Description: d.Description, Kind: string(d.Origin), Source: d.URL, File: d.FileName,
			FileType: d.FileType, Status: d.Status(), Size: d.Content.Size, Chunks: d.Chunks, Disabled: d.Disabled, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt}
		_ = json.Unmarshal(d.Metadata, &info.Metadata) // what is no map of texts is not shown
		out = append(out, info)
	}
	return out, nil
}

// views is the handlers.ViewSource of the read models.
type views struct{ *shelves }

var _ handlers.ViewSource = views{}

// Bases implements handlers.ViewSource.
func (v views) Bases(ctx context.Context, tenant string, ids []string, row func(handlers.ViewBase) bool) error {
	found, err := get[projections.BaseEntry](ctx, v.shelves, projections.Bases, tenant, ids...)
	if err != nil {
		return err
	}
	for _, b := range found {
		if !row(handlers.ViewBase{ID: b.ID, Name: b.Name, Kind: b.Kind, Description: b.Description, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt}) {
			return nil
		}
	}
	return nil
}

// Documents implements handlers.ViewSource.
func (v views) Documents(ctx context.Context, tenant string, s tool.Scope, row func(handlers.ViewDocument) bool) error {
	more := true
	show := func(d projections.DocumentEntry) bool {
		if !d.Disabled && d.Origin != knowledge.OriginFAQ && s.Holds(d.Base, d.ID) {
			more = row(handlers.ViewDocument{ID: d.ID, Base: d.Base, Title: d.Title, Description: d.Description, Kind: string(d.Origin), Source: d.URL, File: d.FileName,
				FileType: d.FileType, Size: d.Content.Size, Status: d.Status(), Chunks: d.Chunks, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt})
		}
		return more
	}
	for _, base := range s.Bases() {
		whole := slices.ContainsFunc(s.Targets, func(t tool.Target) bool { return t.Base == base && !t.Restricted })
		var err error
		if whole {
			q := projections.Query{Tenant: tenant, Where: []projections.Where{is("base", base)}}
			err = each(ctx, v.shelves, projections.Library, q, func(d projections.DocumentEntry) (bool, error) { return show(d), nil })
		} else {
			err = v.named(ctx, tenant, base, s, show)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// named shows the documents of a base that a scope names one by one.
func (v views) named(ctx context.Context, tenant, base string, s tool.Scope, show func(projections.DocumentEntry) bool) error {
	var ids []string
	for _, t := range s.Targets {
		if t.Base == base {
			ids = append(ids, t.Documents...)
		}
	}
	slices.Sort(ids)
	for part := range slices.Chunk(slices.Compact(ids), 500) {
		found, err := get[projections.DocumentEntry](ctx, v.shelves, projections.Library, tenant, part...)
		if err != nil {
			return err
		}
		for _, id := range part {
			if d, ok := found[id]; ok && !show(d) {
				return nil
			}
		}
	}
	return nil
}

// files is the handlers.TableFiles of the read models.
type files struct {
	*shelves
	blobs handlers.Blobs
}

var _ handlers.TableFiles = files{}

// TableFile implements handlers.TableFiles.
func (f files) TableFile(ctx context.Context, tenant, document string) (handlers.DocumentFile, bool, error) {
	found, err := get[projections.DocumentEntry](ctx, f.shelves, projections.Library, tenant, document)
	d, ok := found[document]
	if err != nil || !ok || d.Content.Digest == "" {
		return handlers.DocumentFile{}, false, err
	}
	return handlers.DocumentFile{Base: d.Base, Title: d.Title, Type: d.FileType, Disabled: d.Disabled, TableFile: handlers.TableFile{
		Document: document, Revision: d.Revision, Open: func(ctx context.Context) (handlers.File, func(), error) {
			blob, size, err := f.blobs.Open(ctx, tenant, d.Content.Digest)
			if err != nil {
				return handlers.File{}, nil, err
			}
			return handlers.File{Name: d.FileName, Type: d.FileType, Size: size, Content: blob}, func() { blob.Close() }, nil
		}}}, true, nil
}
