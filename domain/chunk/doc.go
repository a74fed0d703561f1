// Package chunk cuts the text of a document into pieces that a search can find
// and a model can read: by headings, paragraphs, lists, tables, code and
// sentences, measured in tokens, for languages with and without spaces.
//
// It is pure and imports the standard library only. Everything is done in one
// pass and in time that is linear in the text, whatever the text is.
//
// Start reading at Split. scan.go finds the blocks of Markdown, pack.go fills
// pieces with them, cut.go takes blocks apart that are too large, parent.go groups
// pieces, plan.go says how a text will be cut and why.
package chunk
