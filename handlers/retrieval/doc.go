// Package retrieval finds passages for questions: it asks the index by words and
// by vectors, joins the lists, lets a reranker or a model judge them, chooses what
// is relevant and not said twice, and gives each the text around it. Whatever of
// that is not configured, or fails, is left out and said so: an index alone is
// enough. The rules of ranking are in domain/search.
//
// It may import domain and handlers. Start reading at Retriever.Search.
package retrieval
