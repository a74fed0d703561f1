package cli

import (
	"html"
	"regexp"
	"strings"
)

var (
	citationTag  = regexp.MustCompile(`<(kb|web)((?:\s+[a-z_]+="[^"<>]*")+)\s*/>`)
	citationAttr = regexp.MustCompile(`([a-z_]+)="([^"<>]*)"`)
)

// cited shows the citations in a piece of an answer as text: the name of the
// document, or the address of the page, in brackets. A citation is never cut
// between two pieces.
func cited(text string) string {
	if !strings.Contains(text, "<") {
		return text
	}
	return citationTag.ReplaceAllStringFunc(text, func(tag string) string {
		attrs := map[string]string{}
		for _, a := range citationAttr.FindAllStringSubmatch(tag, -1) {
			attrs[a[1]] = strings.Join(strings.Fields(html.UnescapeString(a[2])), " ")
		}
		if u := attrs["url"]; u != "" {
			return "[" + u + "]"
		}
		return "[" + attrs["doc"] + "]"
	})
}
