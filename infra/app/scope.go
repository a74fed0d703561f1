package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/agent"
	"refold/domain/knowledge"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/projections"
)

// Bounds of what a prompt says about the knowledge of a turn.
const (
	maxNotedBases  = 20
	maxDescription = 120 // runes
	maxRecent      = 2
	maxQuestions   = 10
	maxTagged      = 10_000 // documents that the tags of a message stand for, all together
)

// scopes finds the knowledge of messages.
type scopes struct {
	*shelves
	head func(context.Context, ...projections.Projection) error // waits until read models know all that is in the log now, bounded
}

// Scope implements commands.Catalog: what the person chose wins over what the
// agent is configured with; a folder that was named stands for itself.
func (c *catalog) Scope(ctx context.Context, tenant string, a agent.Agent, chosen *session.Sources, workspace string, strict bool) (commands.Scope, error) {
	if c.scopes == nil {
		return commands.Scope{}, nil
	}
	everything := chosen == nil && !a.OnlyMentioned && workspace == "" && a.Knowledge == agent.KnowledgeAll
	switch {
	case strict:
		if err := c.scopes.head(ctx, projections.Bases, projections.Library); err != nil {
			return commands.Scope{}, err
		}
	case everything: // a base that was made just before is one to ask; what comes too late is not waited for
		_ = c.scopes.head(ctx, projections.Bases)
	}
	switch {
	case chosen != nil:
		return c.scopes.chosen(ctx, tenant, *chosen, strict)
	case a.OnlyMentioned || workspace != "":
		return commands.Scope{}, nil
	case everything:
		return c.scopes.all(ctx, tenant)
	case a.Knowledge == agent.KnowledgeSelected:
		return c.scopes.chosen(ctx, tenant, session.Sources{Bases: a.Bases}, false)
	}
	return commands.Scope{}, nil
}

func unknown(what, id string) error {
	return domain.Reject(domain.Missing, "source_not_found", fmt.Sprintf("there is no %s %q; name one that exists, or none", what, id))
}

// searchable tells whether a base can be asked by search.
func searchable(b projections.BaseEntry) bool {
	c := b.Capabilities()
	return b.Kind != knowledge.KindWiki && (c["vector"] || c["keyword"] || c["faq"])
}

// all is every base of the tenant, the newest first.
func (s *scopes) all(ctx context.Context, tenant string) (commands.Scope, error) {
	var bases []projections.BaseEntry
	q := projections.Query{Tenant: tenant, OrderBy: []projections.Order{{Field: "created_at", Desc: true}}}
	err := each(ctx, s.shelves, projections.Bases, q, func(b projections.BaseEntry) (bool, error) {
		bases = append(bases, b)
		return len(bases) < session.MaxSources, nil
	})
	if err != nil {
		return commands.Scope{}, err
	}
	var out commands.Scope
	for _, b := range bases {
		if searchable(b) {
			out.Targets = append(out.Targets, tool.Target{Base: b.ID})
		}
	}
	return out, s.note(ctx, tenant, &out, bases)
}

// chosen is what a person, or a configuration, names.
func (s *scopes) chosen(ctx context.Context, tenant string, w session.Sources, strict bool) (commands.Scope, error) {
	var out commands.Scope
	documents, err := get[projections.DocumentEntry](ctx, s.shelves, projections.Library, tenant, w.Documents...)
	if err != nil {
		return out, err
	}
	wanted := slices.Clone(w.Bases)
	for _, t := range w.Tags {
		wanted = append(wanted, t.Base)
	}
	for _, d := range documents {
		wanted = append(wanted, d.Base)
	}
	bases, err := get[projections.BaseEntry](ctx, s.shelves, projections.Bases, tenant, wanted...)
	if err != nil {
		return out, err
	}
	for _, id := range w.Bases {
		b, ok := bases[id]
		switch {
		case !ok && strict:
			return out, unknown("knowledge base", id)
		case ok && searchable(b):
			out.Targets = append(out.Targets, tool.Target{Base: id})
		}
	}
	for _, id := range w.Documents {
		d, ok := documents[id]
		if b, has := bases[d.Base]; !ok || !has {
			if strict {
				return out, unknown("document", id)
			}
			continue
		} else if !searchable(b) {
			continue
		}
		out.Targets = append(out.Targets, tool.Target{Base: d.Base, Restricted: true, Documents: []string{id}})
		out.Pinned = append(out.Pinned, run.Pinned{Base: d.Base, Document: id, Title: d.Title})
	}
	tagged := 0
	for _, t := range w.Tags {
		b, ok := bases[t.Base]
		tag := slices.IndexFunc(b.Tags, func(e projections.TagEntry) bool { return e.ID == t.Tag || fmt.Sprint(e.Number) == t.Tag })
		if !ok || tag < 0 {
			if strict {
				return out, unknown("tag", t.Tag)
			}
			continue
		}
		target := tool.Target{Base: t.Base, Restricted: true}
		q := projections.Query{Tenant: tenant, Where: []projections.Where{is("base", t.Base), {Field: "tags", Op: "contains", Value: " " + b.Tags[tag].ID + " "}}}
		err := each(ctx, s.shelves, projections.Library, q, func(d projections.DocumentEntry) (bool, error) {
			target.Documents = append(target.Documents, d.ID)
			tagged++
			return tagged <= maxTagged, nil
		})
		if err != nil {
			return out, err
		}
		if tagged > maxTagged {
			if strict {
				return out, domain.Reject(domain.Invalid, "too_many_documents", fmt.Sprintf("the tags stand for more than %d documents; name their knowledge bases instead", maxTagged))
			}
			target.Documents = target.Documents[:max(0, len(target.Documents)-(tagged-maxTagged))]
		}
		out.Targets = append(out.Targets, target)
	}
	return out, s.note(ctx, tenant, &out, slices.Collect(maps.Values(bases)))
}

// note describes the bases of a scope for the prompt.
func (s *scopes) note(ctx context.Context, tenant string, out *commands.Scope, bases []projections.BaseEntry) error {
	for _, id := range out.Bases() {
		i := slices.IndexFunc(bases, func(b projections.BaseEntry) bool { return b.ID == id })
		if i < 0 || len(out.Knowledge) == maxNotedBases {
			continue
		}
		b := bases[i]
		k := run.Knowledge{Base: b.ID, Name: b.Name, Kind: b.Kind, Description: firstRunes(b.Description, maxDescription), Documents: b.Documents}
		for name, can := range b.Capabilities() {
			if can {
				k.Capabilities = append(k.Capabilities, name)
			}
		}
		slices.Sort(k.Capabilities)
		var err error
		if b.Kind == knowledge.KindFAQ {
			q := projections.Query{Tenant: tenant, Limit: maxQuestions, Where: []projections.Where{is("base", id), is("enabled", true)}, OrderBy: []projections.Order{{Field: "updated_at", Desc: true}}}
			err = each(ctx, s.shelves, projections.FAQEntries, q, func(e projections.FAQEntry) (bool, error) {
				k.Questions = append(k.Questions, firstRunes(e.Question, maxDescription))
				return len(k.Questions) < maxQuestions, nil
			})
		} else {
			q := projections.Query{Tenant: tenant, Limit: maxRecent, Where: []projections.Where{is("base", id), is("status", "completed"), is("enabled", true)},
				OrderBy: []projections.Order{{Field: "updated_at", Desc: true}}}
			err = each(ctx, s.shelves, projections.Library, q, func(d projections.DocumentEntry) (bool, error) {
				k.Recent = append(k.Recent, firstRunes(d.Title, maxDescription))
				return len(k.Recent) < maxRecent, nil
			})
		}
		if err != nil {
			return err
		}
		out.Knowledge = append(out.Knowledge, k)
	}
	return nil
}

// firstRunes is the beginning of a text, on one line.
func firstRunes(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return string(runes[:min(len(runes), n)])
}

// freshWait bounds how long a message waits until what was put into a base just
// before it can be named.
const freshWait = 2 * time.Second

// fresh waits until read models know what is in the log now.
func (a *App) fresh(ctx context.Context, views ...projections.Projection) error {
	head, err := a.Store.Head(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	for _, p := range views {
		if err := a.Engine.Await(ctx, p, head); err != nil {
			return err
		}
	}
	return nil
}
