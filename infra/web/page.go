package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"refold/handlers"
	"refold/infra/markdown"
)

// maxElements bounds a page; the readable part of a larger one is not looked
// for.
const maxElements = 50_000

// Page implements handlers.PageReader: at most Options.MaxPage bytes of the page
// count, and Options.Timeout is all the time it has. What has arrived by then
// counts as a part of the page.
func (c *Client) Page(ctx context.Context, address string) (handlers.Page, error) {
	u, err := handlers.CanonicalURL(address)
	if err != nil {
		return handlers.Page{}, &handlers.WebError{Code: "invalid_url", Message: sentence(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a, err := c.get(ctx, u, c.maxPage, c.robots.allowed)
	if err != nil {
		return handlers.Page{}, err
	}
	defer a.close()
	data, partial, err := readBounded(a.body, c.maxPage)
	if err != nil {
		code, why := failure(err)
		if code == "connection_failed" {
			code, why = "read_failed", "it broke off, or does not arrive as it is announced"
		}
		return handlers.Page{}, &handlers.WebError{Code: code, Message: fmt.Sprintf("%s could not be read: %s.", place(a.url, 0), why), Retryable: true}
	}
	return read(a.url, a.response.Header.Get("Content-Type"), data, partial)
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// read makes text of what a page holds.
func read(u *url.URL, contentType string, data []byte, partial bool) (handlers.Page, error) {
	page := handlers.Page{URL: u.String(), Partial: partial}
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "" || kind == "application/octet-stream" {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(data))
	}
	fail := func(code, text string) (handlers.Page, error) {
		return handlers.Page{}, &handlers.WebError{Code: code, Message: place(u, 0) + " " + text}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail("empty_content", "is empty.")
	}
	isHTML := kind == "text/html" || kind == "application/xhtml+xml"
	if !isHTML && !textual(kind) {
		return fail("read_failed", fmt.Sprintf("is a file of type %.60q, not a page that can be read as text. It can be put into a knowledge base instead.", kind))
	}
	text, err := decode(data, contentType)
	if err != nil {
		return fail("read_failed", "is written in a character set that is not known.")
	}
	if isHTML {
		if page.Title, text, err = readable(u, text); err != nil {
			return fail("html_parse_failed", "cannot be read: its HTML is not of a kind that can be understood.")
		}
	} else if strings.ContainsRune(text, 0) {
		return fail("read_failed", "is not text.")
	}
	if page.Text = strings.TrimSpace(text); page.Text == "" {
		return fail("empty_content", "has no text; it may need a browser that runs its scripts.")
	}
	return page, nil
}

func textual(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "/xml") || strings.HasSuffix(kind, "/javascript") || strings.HasSuffix(kind, "yaml") || strings.HasSuffix(kind, "/toml")
}

// decode gives valid UTF-8, by the header, the page's own word, or a guess.
func decode(data []byte, contentType string) (string, error) {
	if _, _, certain := charset.DetermineEncoding(data[:min(len(data), 1024)], contentType); !certain && utf8.Valid(trimCut(data)) {
		return strings.ToValidUTF8(string(data), "\uFFFD"), nil
	}
	r, err := charset.NewReader(bytes.NewReader(data), contentType)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// trimCut leaves out the bytes of a character that the limit cut.
func trimCut(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if b := data[len(data)-i]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(data[len(data)-i:]) {
				return data[:len(data)-i]
			}
			return data
		}
	}
	return data
}

// readable gives the title and the Markdown of the part of a page that is
// meant to be read; of all of it where no such part is found.
func readable(u *url.URL, page string) (title, text string, err error) {
	doc, err := markdown.Parse(page)
	if err != nil {
		return "", "", err
	}
	n := 0
	for range doc.Descendants() {
		n++
	}
	title = titleOf(doc)
	if n <= maxElements {
		if article, ok := extract(doc, u); ok {
			if t := strings.TrimSpace(article.Title()); t != "" {
				title = t
			}
			text, err = markdown.From(article.Node, u.String())
		}
	}
	if err != nil || strings.TrimSpace(text) == "" {
		text, err = markdown.From(doc, u.String())
	}
	return clip(title, 300), text, err
}

// extract never panics, whatever the page holds.
func extract(doc *html.Node, u *url.URL) (article readability.Article, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	article, err := readability.FromDocument(doc, u)
	return article, err == nil && article.Node != nil
}

func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "title" && n.FirstChild != nil {
			return strings.Join(strings.Fields(n.FirstChild.Data), " ")
		}
	}
	return ""
}

// clip gives at most n runes.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
