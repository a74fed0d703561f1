package app

import (
	"context"
	"encoding/json"
	"fmt"

	"refold/domain/event"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
	"refold/infra/parse"
	"refold/infra/viewquery"
	"refold/infra/web"
	"refold/projections"
)

// learn connects what puts documents into knowledge bases.
func (a *App) learn(tokens handlers.TokenCounter) error {
	allowed, err := a.Config.allowed()
	if err != nil {
		return err
	}
	a.shelves = &shelves{a.Engine.Reading(), a.Engine}
	a.parser = &parse.Parser{}
	a.web = web.New(web.Options{AllowNet: allowed})
	a.Ingest = &handlers.Ingest{Commands: a.Commands, Store: a.Store, Blobs: a.DB.Blobs(), Parser: a.parser, Fetcher: a.web,
		Embedder: func(string, string) handlers.Embedder { return nil },
		Index:    a.DB.Index(), Holdings: holdings{a.shelves}, Tokens: tokens, Clock: a.Config.Clock, Log: a.Config.Log, Self: a.Runner.Self, Sole: a.Runner.Sole}
	return nil
}

// knowledgeTools are the tools that read knowledge bases.
func (a *App) knowledgeTools() []tool.Tool {
	index := a.DB.Index()
	return []tool.Tool{&tools.GrepChunks{Index: index}, &tools.ListKnowledgeChunks{Index: index}, &tools.GetDocumentInfo{Library: library{a.shelves}, Index: index},
		&tools.DatabaseQuery{Views: viewquery.New(views{a.shelves}, index)}}
}

// ingest works on documents until ctx ends, first on those that were owed work.
func (a *App) ingest(ctx context.Context, head event.Position) {
	var owed []handlers.Owed
	if !a.Config.Own { // that is for whoever serves
		var err error
		if owed, err = a.owed(ctx, head); err != nil && ctx.Err() == nil {
			a.Config.Log.Error("documents on their way could not be listed; the next start finds them", "error", err)
		}
	}
	a.Ingest.Run(ctx, head, owed)
}

// owed lists what of all tenants was owed work at a position: see handlers.Ingest.
func (a *App) owed(ctx context.Context, head event.Position) ([]handlers.Owed, error) {
	var out []handlers.Owed
	for _, p := range []projections.Projection{projections.Library, projections.Bases, projections.Imports} {
		err := a.everywhere(ctx, head, p, projections.Query{Collection: projections.OwingCollection}, func(d projections.Document) error {
			var o projections.Owing
			if err := json.Unmarshal(d.Body, &o); err != nil {
				return fmt.Errorf("%s %s: %w", p.Name, d.ID, err)
			}
			out = append(out, handlers.Owed{Stream: event.Stream{Tenant: d.Tenant, Category: o.Category, ID: o.ID}, Base: o.Base})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
