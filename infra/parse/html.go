package parse

import (
	"strings"

	"golang.org/x/net/html"

	"refold/handlers"
	"refold/infra/markdown"
)

// page gives the Markdown of an HTML file, and its title.
func page(source string) (handlers.Parsed, error) {
	var out handlers.Parsed
	doc, err := markdown.Parse(source)
	if err != nil {
		return out, fail("damaged", "the HTML nests too deeply: save it again in a simpler form")
	}
	out.Title = title(doc)
	reveal(doc)
	if out.Text, err = markdown.From(doc, ""); err != nil {
		return out, fail("damaged", "the HTML cannot be read: save it again in a simpler form")
	}
	return out, nil
}

func title(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "title" && n.FirstChild != nil && n.Namespace == "" {
			return strings.Join(strings.Fields(n.FirstChild.Data), " ")
		}
	}
	return ""
}

// reveal takes out what a reader of the page does not see: hidden text is where
// instructions to models are put.
func reveal(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && (c.Data == "head" || hidden(c)) {
			n.RemoveChild(c)
		} else {
			reveal(c)
		}
		c = next
	}
}

func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			// Also what is only shown, such as icons; nothing to read.
			if a.Val == "true" {
				return true
			}
		case "style":
			s := strings.Join(strings.Fields(strings.ToLower(a.Val)), "")
			for _, rule := range []string{"display:none", "visibility:hidden", "font-size:0;", "font-size:0px", "opacity:0;"} {
				if strings.Contains(s+";", rule) {
					return true
				}
			}
		}
	}
	return false
}
