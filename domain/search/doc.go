// Package search is how text is found, as pure computation: words (what counts
// as a term in Chinese, English and identifiers), BM25 over terms, the short list
// that keeps BM25 cheap over inverted lists, vectors in memory, and the rules by
// which ranked lists become one. Stores do the reading; all of them rank by what
// is here, so that the same query finds the same everywhere.
//
// It imports the standard library only. Start reading at Terms, then Scorer and
// Shortlist, then Vectors, then rank.go.
package search
