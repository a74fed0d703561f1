package parse

import (
	"context"
	"errors"
	"io"
	"strings"

	"refold/handlers"
	"refold/infra/parse/charset"
)

// languages are the types of source code that are read, with the names that
// fences of Markdown give them.
var languages = map[string]string{
	"c": "c", "cpp": "cpp", "cs": "csharp", "css": "css", "go": "go", "h": "c", "ini": "ini", "java": "java", "js": "javascript", "kt": "kotlin",
	"php": "php", "py": "python", "rb": "ruby", "rs": "rust", "sh": "sh", "sql": "sql", "swift": "swift", "toml": "toml", "ts": "typescript",
	"xml": "xml", "yaml": "yaml", "yml": "yaml",
}

// text reads everything that is a text file.
func text(ctx context.Context, f handlers.File, k kind) (handlers.Parsed, error) {
	source, e, err := decode(f)
	if err != nil {
		return handlers.Parsed{}, err
	}
	if err := ctx.Err(); err != nil {
		return handlers.Parsed{}, err
	}
	var out handlers.Parsed
	switch k {
	case isHTML:
		out, err = page(source)
	case isJSON:
		out.Text, err = object(ctx, source, strings.ToLower(f.Type))
	case isCode:
		fence := "```"
		for strings.Contains(source, fence) {
			fence += "`"
		}
		out.Text = fence + languages[strings.ToLower(f.Type)] + "\n" + strings.TrimRight(source, "\n") + "\n" + fence
		if blank(source) {
			out.Text = ""
		}
	default:
		out.Text = source
	}
	out.Encoding = e.Name
	if e.Name != "utf-8" {
		out.Notes = append(out.Notes, "the text was read as "+e.Name)
	}
	return out, err
}

// decode reads a text file as UTF-8, its lines ending with \n.
func decode(f handlers.File) (string, charset.Encoding, error) {
	head := make([]byte, 4096)
	if _, err := f.Content.Seek(0, io.SeekStart); err != nil {
		return "", charset.Encoding{}, err
	}
	n, err := io.ReadFull(f.Content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", charset.Encoding{}, err
	}
	hint := ""
	switch strings.ToLower(f.Type) {
	case "html", "htm", "xhtml", "xml":
		hint = charset.Declared(head[:n])
	default:
		if looksHTML(head[:n]) {
			hint = charset.Declared(head[:n])
		}
	}
	e, err := charset.Detect(f.Content, hint)
	if err != nil {
		return "", e, err
	}
	in, err := e.Reader(f.Content)
	if err != nil {
		return "", e, err
	}
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(in, handlers.MaxParsed+1)); err != nil {
		return "", e, err
	}
	if b.Len() > handlers.MaxParsed {
		return "", e, fail("too_large", "the text has more than %d MB: split it", handlers.MaxParsed>>20)
	}
	s := b.String()
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	return s, e, nil
}
