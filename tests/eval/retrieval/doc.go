// Package retrieval measures how well documents are found: 26 documents in
// Chinese and English, as companies have them, and 50 questions in other words
// than theirs, each with the document that answers it. Several documents are
// close to each other on purpose.
//
// make eval-retrieval prints recall@5 (how often the right document is among the
// first five passages), recall@1 and MRR, of words alone, of vectors alone and
// of both. The vectors are those of a test model (embedder_test.go), which knows
// some synonyms and no more: what a real model gives must be measured with it.
package retrieval
