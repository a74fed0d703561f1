package handlers

import (
	"context"
	"errors"
	"fmt"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// embedder gives what turns the document's pieces into vectors, or why there is
// none.
func (st *stage) embedder() (Embedder, string) {
	r := st.s.Recipe
	if !r.Vector {
		return nil, knowledge.SkippedNotWanted
	}
	if st.g.Embedder == nil {
		return nil, knowledge.SkippedNoModel
	}
	e := st.g.Embedder(st.tenant, r.Embedding)
	if e == nil {
		return nil, knowledge.SkippedNoModel
	}
	return e, ""
}

// embed makes the vectors that the index does not have yet, batch by batch, so
// that a crash loses one batch.
func (st *stage) embed(ctx context.Context) (knowledge.Event, error) {
	e := knowledge.Embedded{Revision: st.claim.Revision}
	model, why := st.embedder()
	if model == nil {
		e.Skipped, e.At = why, st.now()
		return e, nil
	}
	chunks, err := st.chunks(ctx)
	if err != nil {
		return nil, err
	}
	var texts []string
	seen := map[string]bool{}
	for _, c := range chunks {
		if digest := c.EmbeddedDigest(); c.Kind.Searched() && !seen[digest] {
			seen[digest] = true
			texts = append(texts, c.EmbeddedText())
		}
	}
	for len(texts) > 0 {
		n := min(len(texts), 8*MaxEmbedBatch) // are looked up at once
		made, kept, err := st.vectors(ctx, model, texts[:n])
		e.Vectors, e.Kept = e.Vectors+made, e.Kept+kept
		if err != nil {
			return nil, err
		}
		texts = texts[n:]
	}
	e.Model, e.At = model.Name(), st.now()
	return e, nil
}

// vectors makes sure that the index has the vectors of texts.
func (st *stage) vectors(ctx context.Context, model Embedder, texts []string) (made, kept int, err error) {
	digests := make([]string, len(texts))
	for i, t := range texts {
		digests[i] = knowledge.Digest(t)
	}
	var have map[string][]float32
	if err := st.patient(ctx, func() (err error) {
		have, err = st.g.Index.Embeddings(ctx, st.tenant, model.Name(), digests)
		return err
	}); err != nil {
		return 0, 0, err
	}
	var missing []string
	for i, t := range texts {
		if _, ok := have[digests[i]]; !ok {
			missing = append(missing, t)
		}
	}
	kept = len(texts) - len(missing)
	for len(missing) > 0 {
		n := min(len(missing), MaxEmbedBatch)
		got, err := model.Embed(ctx, missing[:n])
		if err == nil && len(got) != n {
			err = &ModelError{Code: "bad_response", Message: fmt.Sprintf("the embedding model gave %d vectors for %d texts", len(got), n)}
		}
		if err != nil {
			return made, kept, err
		}
		fresh := make(map[string][]float32, n)
		for i, v := range got {
			fresh[knowledge.Digest(missing[i])] = v
		}
		err = st.patient(ctx, func() error { return st.g.Index.Embed(ctx, st.tenant, model.Name(), fresh) })
		if errors.Is(err, event.ErrInvalid) {
			err = &ModelError{Code: "bad_vectors", Message: "the embedding model gives vectors of another length than before; give the new one another name"}
		}
		if err != nil {
			return made, kept, err
		}
		st.moved = true
		made += n
		missing = missing[n:]
	}
	return made, kept, nil
}

// embedEdited makes the vector of a chunk that a person has edited. What can't be
// had is left out: the edit must not wait for a model.
func (st *stage) embedEdited(ctx context.Context, c knowledge.Chunk) error {
	if st.s.Embedded == nil || st.s.Embedded.Model == "" || !c.Kind.Searched() {
		return nil
	}
	model, _ := st.embedder()
	if model == nil || model.Name() != st.s.Embedded.Model {
		return nil
	}
	_, _, err := st.vectors(ctx, model, []string{c.EmbeddedText()})
	var failed *ModelError
	if errors.As(err, &failed) && (!failed.Transient || st.claim.Attempt >= knowledge.MaxAttempts) {
		st.log.Warn("an edited chunk has no vector; words find it", "chunk", c.ID, "error", err)
		return nil
	}
	return err
}
