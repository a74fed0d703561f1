// Package knowledge is what people put into a knowledge base, and how it becomes
// something that can be found: bases, documents, FAQ entries, tags, the steps
// from a file to chunks in an index, and the rules by which hits are ranked.
// Each change is a fact; ingestion is owed work of the same kind as a run: what
// is due is computed from the facts, claimed, done and reported.
//
// It imports the standard library, domain, domain/event and domain/tool. Start
// reading at document.go (the life of a document), then base.go, chunk.go, and
// index.go, the port to what can be searched.
package knowledge
