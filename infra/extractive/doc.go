// Package extractive is a handlers.Model that needs no network and no weights:
// it searches with the tools it is offered, reads what it found and answers with
// quoted sentences and their places. It does not reason and says so. The same
// messages always give the same reply.
//
// It may import domain and handlers. Start reading at Model.Chat, then
// strategies (what to call), evidence (what the tools said), rank (what fits) and answer.
package extractive
