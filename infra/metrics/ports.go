package metrics

import (
	"context"
	"errors"
	"time"

	"refold/domain/event"
	"refold/domain/tool"
	"refold/handlers"
)

// Store gives a store that counts its appends.
func (s *Set) Store(store event.Store) event.Store { return &meteredStore{store, s} }

type meteredStore struct {
	event.Store
	set *Set
}

// Append implements event.Store.
func (m *meteredStore) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	began := m.set.now()
	res, err := m.Store.Append(ctx, stream, expect, events...)
	category := categoryLabel(stream.Category)
	outcome := "error"
	switch {
	case err == nil:
		outcome = "ok"
		m.set.appendSeconds.WithLabelValues(category).Observe(m.set.now().Sub(began).Seconds())
		m.set.appendEvents.WithLabelValues(category).Observe(float64(len(events)))
	case errors.Is(err, event.ErrConflict):
		outcome = "conflict"
		m.set.conflicts.WithLabelValues(category).Inc()
	case errors.Is(err, event.ErrInvalid):
		outcome = "invalid"
	case errors.Is(err, event.ErrUnavailable):
		outcome = "unavailable"
	}
	m.set.appends.WithLabelValues(category, outcome).Inc()
	return res, err
}

// categoryLabel bounds the categories: the aggregates that there are.
func categoryLabel(category string) string {
	switch category {
	case "session", "run", "key", "tenant", "request", "document", "knowledge_base", "faq_import", "transfer", event.CategoryDelta:
		return category
	}
	return Other
}

// Model gives a model that counts its calls under a name.
func (s *Set) Model(name string, model handlers.Model) handlers.Model {
	return &meteredModel{model, s.models.label(name), s}
}

type meteredModel struct {
	handlers.Model
	name string
	set  *Set
}

// Chat implements handlers.Model.
func (m *meteredModel) Chat(ctx context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	began, first := m.set.now(), true
	reply, err := m.Model.Chat(ctx, req, func(d handlers.ModelDelta) error {
		if first {
			first = false
			m.set.modelTTF.WithLabelValues(m.name).Observe(m.set.now().Sub(began).Seconds())
		}
		return emit(d)
	})
	var failed *handlers.ModelError
	outcome := "error"
	switch {
	case err == nil:
		outcome = "ok"
		m.set.modelSeconds.WithLabelValues(m.name).Observe(m.set.now().Sub(began).Seconds())
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		outcome = "canceled"
	case ctx.Err() != nil:
		outcome = "timeout"
	case errors.As(err, &failed):
		outcome = m.set.codes.label(failed.Code)
	}
	m.set.modelCalls.WithLabelValues(m.name, outcome).Inc()
	for kind, n := range map[string]int{"prompt": reply.Usage.Prompt, "completion": reply.Usage.Completion, "cached": reply.Usage.Cached} {
		if n > 0 {
			m.set.tokens.WithLabelValues(m.name, kind).Add(float64(n))
		}
	}
	return reply, err
}

// Tools gives a toolbox that counts its calls.
func (s *Set) Tools(box handlers.Toolbox) handlers.Toolbox { return &meteredTools{box, s} }

type meteredTools struct {
	handlers.Toolbox
	set *Set
}

// Invoke implements handlers.Toolbox. A name that no tool has is not a label.
func (m *meteredTools) Invoke(ctx context.Context, name string, call tool.Call, limit int) handlers.ToolOutcome {
	began := m.set.now()
	out := m.Toolbox.Invoke(ctx, name, call, limit)
	label := Other
	if m.Hash(name) != "" {
		label = m.set.tools.label(name)
	}
	outcome := "failed"
	switch {
	case out.Abandoned:
		outcome = "abandoned"
	case out.Success:
		outcome = "success"
	}
	m.set.toolCalls.WithLabelValues(label, outcome).Inc()
	m.set.toolSeconds.WithLabelValues(label).Observe(m.set.now().Sub(began).Seconds())
	return out
}

// Ingestion gives what counts the work on documents.
func (s *Set) Ingestion() handlers.IngestWatch { return meteredIngestion{s} }

type meteredIngestion struct{ set *Set }

// Stage implements handlers.IngestWatch.
func (m meteredIngestion) Stage(stage, outcome string, took time.Duration) {
	if outcome != "done" {
		outcome = m.set.codes.label(outcome)
	} else {
		m.set.stageSeconds.WithLabelValues(stage).Observe(took.Seconds())
	}
	m.set.stages.WithLabelValues(stage, outcome).Inc()
}

// Document implements handlers.IngestWatch.
func (m meteredIngestion) Document(outcome string) { m.set.documents.WithLabelValues(outcome).Inc() }

// scrapeTime bounds what one scrape asks of the store.
const scrapeTime = 2 * time.Second
