// Package citation gives the sources of a request short handles: c3 for a chunk,
// d1 for a document, b1 for a knowledge base, w2 for a web page, res://0001 for a
// stored image. A model copies short handles without error, where it would
// mangle UUIDs; and what it writes can name nothing that it was not shown.
//
// The record only ever holds durable ids. A Registry is made for one request by
// reading its messages in order: ids become handles before the request is sent
// (Registry), and handles in the reply become ids, or citations, while it
// streams (Decoder) and in the arguments of calls (DecodeArguments). Equal
// messages, equal handles.
//
// It imports the standard library and domain/tool. Start reading at Registry.
package citation
