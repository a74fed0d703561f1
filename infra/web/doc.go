// Package web reaches the web on behalf of models and people: pages as readable
// text (handlers.PageReader) and files (handlers.Fetcher). It reaches public
// addresses only: every address of every hop is checked against one table, and
// the connection goes to the address that was checked. Bodies are bounded after
// inflation, robots.txt and a rate for each host are respected.
//
// It imports handlers, infra/markdown, the HTML parser and character sets of
// golang.org/x/net, go-readability, robotstxt, brotli, zstd and golang.org/x/time.
// Start reading at Client.get (a chain of hops), then guard.go (what may be
// reached).
package web
