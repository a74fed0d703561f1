// Package sqlstore is what the two SQL stores have in common, so that each of
// these things has one home: the queue of those who share a commit, wake-ups,
// positions, metadata as text, content in parts, and cursors. It knows no
// database, and imports the domain and the ports of the stores. Start reading at
// Queue.
package sqlstore
