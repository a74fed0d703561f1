// Package handbook is the sample knowledge base: what this project says about
// itself, so that there is something to ask at once, offline. Its files are copies
// that a test keeps equal to the README and the package comments (go test
// ./infra/handbook -update writes them anew). It imports the standard library
// only. Start reading at Files.
package handbook

import (
	"embed"
	"io/fs"
)

// Name and Description of the sample base.
const (
	Name        = "Refold handbook"
	Description = "What Refold is and how it works: the README and the comments of its packages."
)

//go:embed pages/*.md
var pages embed.FS

// File is a page of the handbook, Markdown.
type File struct {
	Name    string
	Content []byte
}

// Files are the pages, sorted by name.
func Files() []File {
	var out []File
	entries, err := fs.ReadDir(pages, "pages")
	if err != nil {
		panic(err) // they are part of the binary
	}
	for _, e := range entries {
		content, err := pages.ReadFile("pages/" + e.Name())
		if err != nil {
			panic(err)
		}
		out = append(out, File{e.Name(), content})
	}
	return out
}
