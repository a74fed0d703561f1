package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"refold/domain/event"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/retrieval"
	"refold/handlers/tools"
	"refold/infra/analysis"
	"refold/infra/parse"
	"refold/infra/parse/pdf"
	"refold/infra/viewquery"
	"refold/infra/web"
	"refold/infra/websearch"
	"refold/projections"
)

// learn connects what puts documents into knowledge bases.
func (a *App) learn(tokens handlers.TokenCounter) error {
	allowed, err := a.Config.allowed()
	if err != nil {
		return err
	}
	a.shelves = &shelves{a.Engine.Reading(), a.Engine}
	a.parser = &parse.Parser{PDF: pdf.Reader{Cache: filepath.Join(a.Config.Data, "cache", "pdf")}}
	v, err := newVectors(a.Config)
	if err != nil {
		return err
	}
	a.Commands.Vectors = v.called
	a.retriever = &retrieval.Retriever{Index: living{a.DB.Index(), a.shelves}, Bases: a.shelves.searched, Embedder: v.embedder, Reranker: v.reranker}
	a.web = web.New(web.Options{AllowNet: allowed})
	if path, err := analysis.Find(a.Config.DataBinary); err == nil {
		a.analyst = analysis.New(analysis.Options{Binary: path, Tables: a.parser, Log: a.Config.Log})
	} else {
		a.Config.Log.Info("data_analysis is not offered", "why", err.Error())
	}
	for i, w := range a.Config.WebSearch {
		key := w.APIKey
		if key == "" && w.APIKeyEnv != "" {
			key = os.Getenv(w.APIKeyEnv)
		}
		s, err := websearch.New(websearch.Config{Provider: w.Provider, Name: w.Name, BaseURL: w.BaseURL, APIKey: key, EngineID: w.EngineID})
		if err != nil {
			return configError(fmt.Errorf("web_search %d: %w", i+1, err))
		}
		a.searchers = append(a.searchers, s)
	}
	a.Ingest = &handlers.Ingest{Commands: a.Commands, Store: a.Store, Blobs: a.DB.Blobs(), Parser: a.parser, Fetcher: a.web,
		Embedder: v.embedder,
		Index:    a.DB.Index(), Holdings: holdings{a.shelves}, Tokens: tokens, Clock: a.Config.Clock, Log: a.Config.Log, Self: a.Runner.Self, Sole: a.Runner.Sole,
		Watch: a.Metrics.Ingestion(), Keep: a.DB.Contents().Keep}
	return nil
}

// knowledgeTools are the tools that read knowledge bases, table files and the web,
// as far as what they need is there.
func (a *App) knowledgeTools(m *models) []tool.Tool {
	index := living{a.DB.Index(), a.shelves}
	out := []tool.Tool{understanding{}, &tools.KnowledgeSearch{Searcher: a.retriever}, &tools.GrepChunks{Index: index}, &tools.ListKnowledgeChunks{Index: index}, &tools.GetDocumentInfo{Library: library{a.shelves}, Index: index},
		&tools.DatabaseQuery{Views: viewquery.New(views{a.shelves}, index)}, &tools.DataSchema{Index: index}}
	if a.analyst != nil {
		out = append(out, &tools.DataAnalysis{Files: files{a.shelves, a.DB.Blobs()}, Analyst: a.analyst})
	}
	if len(a.searchers) > 0 {
		out = append(out, &tools.WebSearch{For: func(string) handlers.WebSearcher { return a.searchers }},
			&tools.WebFetch{Pages: a.web, Model: func(c tool.Call) handlers.Model { return m.reader(c.Model) }})
	}
	return out
}

// reader is a model that can sum up a page, nil if it can only quote.
func (m *models) reader(name string) handlers.Model {
	if m.plain(name) {
		return nil
	}
	model, err := m.Model(name)
	if err != nil {
		return nil
	}
	return model
}

// ingest works on documents until ctx ends, first on those that were owed work.
func (a *App) ingest(ctx context.Context, head event.Position) {
	select { // so that the same file is always cut the same way
	case <-a.counts:
	case <-ctx.Done():
		return
	}
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
	for _, p := range []projections.Projection{projections.Library, projections.Bases, projections.Imports, projections.Transfers} {
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

// searched says how bases are searched.
func (s *shelves) searched(ctx context.Context, tenant string, ids []string) (map[string]retrieval.Base, error) {
	found, err := get[projections.BaseEntry](ctx, s, projections.Bases, tenant, ids...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]retrieval.Base, len(found))
	for id, b := range found {
		out[id] = retrieval.Base{Embedding: b.Settings.Embedding, Vector: b.Settings.Strategy.Vector, Keyword: b.Settings.Strategy.Keyword}
	}
	return out, nil
}
