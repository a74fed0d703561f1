// Package markdown turns HTML into Markdown for those who read pages and
// documents (infra/web, infra/parse). It imports html-to-markdown and the HTML
// parser of golang.org/x/net. Start reading at From.
package markdown

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Parse reads a page. HTML that nests deeper than 512 elements is an error.
func Parse(page string) (*html.Node, error) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("read the HTML: %w", err)
	}
	return doc, nil
}

// From gives the Markdown of a parsed page or a part of one, which it may
// change: headings, lists, code, links and tables stay; scripts, styles, forms'
// controls and embedded data go. Links are made absolute with base, the page's
// own address, where there is one. The text of the page is escaped, so that it
// cannot forge structure. Whatever the page holds, it fails with an error, never
// a panic.
func From(doc *html.Node, base string) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("convert the HTML: it is not of a kind that can be converted")
		}
	}()
	strip(doc)
	var options []converter.ConvertOptionFunc
	if base != "" {
		options = append(options, converter.WithDomain(base))
	}
	out, err := newConverter().ConvertNode(doc, options...)
	if err != nil {
		return "", fmt.Errorf("convert the HTML: %w", err)
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(out), "\uFFFD")), nil
}

func newConverter() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(table.WithSpanCellBehavior(table.SpanBehaviorMirror), table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithCellPaddingBehavior(table.CellPaddingBehaviorNone))))
}

// unread are elements that nobody reads.
var unread = map[string]bool{"script": true, "style": true, "template": true, "noscript": true, "iframe": true, "object": true, "embed": true,
	"svg": true, "canvas": true, "input": true, "button": true, "select": true, "textarea": true, "audio": true, "video": true, "link": true, "meta": true}

const (
	maxSpan  = 50     // how far a table's cell is repeated
	maxCells = 20_000 // of one table, once its rows are made equally long and spans are filled
)

// strip takes out what nobody reads, and what would blow a page up.
func strip(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && unread[c.Data] {
			n.RemoveChild(c)
		} else {
			strip(c)
		}
		c = next
	}
	if n.Type != html.ElementNode {
		return
	}
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		value := strings.ToLower(strings.TrimSpace(a.Val))
		embedded := strings.HasPrefix(value, "data:") || strings.HasPrefix(value, "javascript:")
		if !strings.HasPrefix(a.Key, "on") && (!embedded || a.Key != "src" && a.Key != "href") {
			kept = append(kept, a)
		}
	}
	n.Attr = kept
	switch {
	case n.Data == "table":
		tame(n)
	case n.Data == "a" && !slices.ContainsFunc(kept, func(a html.Attribute) bool { return a.Key == "href" }):
		n.Data, n.DataAtom = "span", atom.Span // a link without an address is text
	}
}

// tame makes plain blocks of a table that would become too large: its text
// stays.
func tame(table *html.Node) {
	rows, widest := 0, 0
	reach := map[int]int{} // columns that are filled from above, by the last row that they fill
	var parts []*html.Node
	for n := range table.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "tr":
			rows++
			delete(reach, rows-1)
			width := 0
			for _, columns := range reach {
				width += columns
			}
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				if c.Data == "td" || c.Data == "th" {
					columns, down := span(c, "colspan"), span(c, "rowspan")
					width += columns
					if down > 1 {
						reach[rows+down-1] += columns
					}
				}
			}
			widest = max(widest, width)
			parts = append(parts, n)
		case "td", "th", "tbody", "thead", "tfoot", "caption", "colgroup", "col", "table":
			parts = append(parts, n)
		}
	}
	for last := range reach {
		if last-rows > maxSpan {
			widest = maxCells + 1
		}
	}
	if rows*widest <= maxCells && rows > 0 {
		return
	}
	for _, n := range append(parts, table) {
		n.Data, n.DataAtom, n.Attr = "div", atom.Div, nil
	}
}

// span reads how many columns or rows a cell takes, 1 where that is not said,
// maxCells where it is more than anybody means.
func span(cell *html.Node, key string) int {
	for _, a := range cell.Attr {
		if a.Key == key {
			n, err := strconv.Atoi(strings.TrimSpace(a.Val))
			if err != nil || n < 1 {
				return 1
			}
			if n > maxSpan {
				return maxCells + 1
			}
			return n
		}
	}
	return 1
}
