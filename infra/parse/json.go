package parse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"refold/handlers"
)

const (
	maxNesting = 200 // of objects and arrays in JSON
	maxKey     = 200 // runes of a key that becomes a heading
)

// object writes JSON, or JSON lines, as Markdown: the members of an object at the
// top become sections, the elements of an array code blocks; what they hold stays
// JSON, indented, with its keys in order and its numbers as they are.
func object(ctx context.Context, source, ext string) (string, error) {
	w := &jsonWriter{ctx: ctx, dec: json.NewDecoder(strings.NewReader(source))}
	w.dec.UseNumber()
	values := 0
	for {
		token, err := w.dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if values++; err == nil && values > 1 && ext == "json" && !strings.Contains(source, "\n") {
			err = errors.New("something follows the value")
		}
		if err == nil {
			switch {
			case token == json.Delim('{') && ext == "json":
				err = w.sections()
			case token == json.Delim('[') && ext == "json":
				err = w.elements()
			default:
				err = w.block(token)
			}
		}
		if err != nil {
			return "", w.wrong(source, err)
		}
	}
	return strings.TrimSpace(w.out.String()), nil
}

type jsonWriter struct {
	ctx context.Context
	dec *json.Decoder
	out strings.Builder
	n   int
}

// wrong says where the JSON is not JSON.
func (w *jsonWriter) wrong(source string, err error) error {
	var known *handlers.ParseError
	if errors.As(err, &known) || w.ctx.Err() != nil {
		return err
	}
	at := min(int(w.dec.InputOffset()), len(source))
	return fail("damaged", "line %d is not JSON: %v", strings.Count(source[:at], "\n")+1, err)
}

// sections writes the members of an object: small ones as a list, others under
// headings.
func (w *jsonWriter) sections() error {
	for w.dec.More() {
		key, err := w.key()
		if err != nil {
			return err
		}
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		if _, nested := token.(json.Delim); !nested {
			fmt.Fprintf(&w.out, "- %s: %s\n", key, scalar(token))
			continue
		}
		fmt.Fprintf(&w.out, "\n## %s\n\n", cutRunes(strings.Join(strings.Fields(key), " "), maxKey))
		if token == json.Delim('[') {
			err = w.elements()
		} else {
			err = w.block(token)
		}
		if err != nil {
			return err
		}
		w.out.WriteByte('\n')
	}
	_, err := w.dec.Token()
	return err
}

// elements writes each element of an array as a block; those that are no objects
// or arrays as a list.
func (w *jsonWriter) elements() error {
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		if _, nested := token.(json.Delim); nested {
			err = w.block(token)
		} else {
			fmt.Fprintf(&w.out, "- %s\n", scalar(token))
		}
		if err != nil {
			return err
		}
		if w.out.Len() > handlers.MaxParsed {
			return fail("too_large", "the file holds too much text: split it")
		}
	}
	_, err := w.dec.Token()
	return err
}

// block writes a value as code.
func (w *jsonWriter) block(token json.Token) error {
	w.out.WriteString("```json\n")
	if err := w.value(token, 0); err != nil {
		return err
	}
	w.out.WriteString("\n```\n\n")
	return nil
}

func (w *jsonWriter) value(token json.Token, depth int) error {
	if w.n++; w.n%1024 == 0 && w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if w.out.Len() > handlers.MaxParsed {
		return fail("too_large", "the file holds too much text: split it")
	}
	if depth > maxNesting {
		return fail("damaged", "the values nest deeper than %d", maxNesting)
	}
	open, nested := token.(json.Delim)
	if !nested {
		w.out.WriteString(quoted(token))
		return nil
	}
	w.out.WriteString(open.String())
	first := true
	for w.dec.More() {
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		w.out.WriteString("\n" + strings.Repeat("  ", min(depth+1, 20)))
		if open == '{' {
			key, err := w.key()
			if err != nil {
				return err
			}
			w.out.WriteString(quoted(key) + ": ")
		}
		next, err := w.dec.Token()
		if err != nil {
			return err
		}
		if err := w.value(next, depth+1); err != nil {
			return err
		}
	}
	end, err := w.dec.Token()
	if err != nil {
		return err
	}
	if !first {
		w.out.WriteString("\n" + strings.Repeat("  ", min(depth, 20)))
	}
	w.out.WriteString(fmt.Sprint(end))
	return nil
}

func (w *jsonWriter) key() (string, error) {
	token, err := w.dec.Token()
	if err != nil {
		return "", err
	}
	key, ok := token.(string)
	if !ok {
		return "", errors.New("a key is missing")
	}
	return key, nil
}

// quoted is a value as JSON, readable: without escapes where none are needed.
func quoted(token any) string {
	s, ok := token.(string)
	if !ok {
		return scalar(token)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func scalar(token any) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		return strings.ReplaceAll(v, "\n", "\n  ")
	}
	return fmt.Sprint(token)
}

func cutRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
