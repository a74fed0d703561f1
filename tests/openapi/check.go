// Package openapi checks live HTTP traffic against the OpenAPI document: every
// answer (status, headers, body, each frame of a feed) and every request that
// was taken. The document's schemas are JSON Schema 2020-12, so they are used as
// they are. It is a RoundTripper, so any test client can carry it.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Checker knows a document. Safe for concurrent use.
type Checker struct {
	doc    map[string]any
	routes []route

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
	problems []string
	seen     map[string]int // "METHOD path status"
}

type route struct {
	path    string
	names   []string
	pattern *regexp.Regexp
	item    map[string]any
}

const root = "refold:///openapi.json"

var parameter = regexp.MustCompile(`\\\{(\w+)\\\}`)

// New reads a document.
func New(document []byte) (*Checker, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	c := &Checker{doc: object(v), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, seen: map[string]int{}}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(root, v); err != nil {
		return nil, err
	}
	for path, item := range object(c.doc["paths"]) {
		r := route{path: path, item: object(item)}
		quoted := regexp.QuoteMeta(path)
		for _, m := range parameter.FindAllStringSubmatch(quoted, -1) {
			r.names = append(r.names, m[1])
		}
		r.pattern = regexp.MustCompile("^" + parameter.ReplaceAllString(quoted, "([^/]+)") + "$")
		c.routes = append(c.routes, r)
	}
	// Paths without parameters win.
	sort.Slice(c.routes, func(i, j int) bool {
		x, y := c.routes[i], c.routes[j]
		if len(x.names) != len(y.names) {
			return len(x.names) < len(y.names)
		}
		return x.path < y.path
	})
	return c, nil
}

// Problems are what did not fit, each once.
func (c *Checker) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// Unseen lists the operations that no request was made of.
func (c *Checker) Unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, r := range c.routes {
		for method := range r.item {
			op := strings.ToUpper(method) + " " + r.path
			if method != "parameters" && c.seen[op] == 0 {
				out = append(out, op)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Seen counts the requests that were checked.
func (c *Checker) Seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.seen {
		n += k
	}
	return n
}

func (c *Checker) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > 1500 {
		text = text[:1500] + "..."
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.problems, text) && len(c.problems) < 200 {
		c.problems = append(c.problems, text)
	}
}

// Transport checks what goes through it.
func (c *Checker) Transport(base http.RoundTripper) http.RoundTripper { return transport{c, base} }

type transport struct {
	checker *Checker
	base    http.RoundTripper
}

// maxRequest bounds the bodies of requests that are looked at.
const maxRequest = 8 << 20

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	whole := true
	if r.Body != nil && r.Body != http.NoBody {
		head, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
		if err != nil {
			return nil, err
		}
		body := r.Body
		r = r.Clone(r.Context())
		if whole = len(head) <= maxRequest; whole {
			sent, r.Body = head, io.NopCloser(bytes.NewReader(head))
		} else {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), body), body}
		}
	}
	res, err := t.base.RoundTrip(r)
	if err != nil {
		return res, err
	}
	t.checker.check(r, sent, whole, res)
	return res, nil
}

// check checks a request and the head of its answer, and lets the body be
// checked while it is read.
func (c *Checker) check(r *http.Request, sent []byte, whole bool, res *http.Response) {
	at := r.Method + " " + r.URL.Path
	found, values := c.find(r.URL.EscapedPath())
	if found == nil {
		if res.StatusCode != 404 && res.StatusCode != 403 && res.StatusCode != 401 {
			c.problem("%s: no path of the document, and HTTP %d", at, res.StatusCode)
		}
		return
	}
	op := object(found.item[strings.ToLower(r.Method)])
	if op == nil {
		if res.StatusCode != 405 && res.StatusCode != 403 && res.StatusCode != 401 && r.Method != http.MethodOptions {
			c.problem("%s (%s): the document has no such method, and HTTP %d", at, found.path, res.StatusCode)
		}
		return
	}
	name := r.Method + " " + found.path
	c.mu.Lock()
	c.seen[name]++
	c.mu.Unlock()
	where := fmt.Sprintf("%s (%s), HTTP %d", name, at, res.StatusCode)
	base := pointer("paths", found.path, strings.ToLower(r.Method))
	if res.StatusCode < 400 {
		c.request(where, base, found, values, op, r, sent, whole)
	}
	place, answer := c.resolve(pointer("responses", strconv.Itoa(res.StatusCode)), base, op)
	if answer == nil {
		c.problem("%s: this status is not in the document", where)
		return
	}
	for header := range object(answer["headers"]) {
		hp, h := c.resolve(pointer("headers", header), place, answer)
		v := res.Header.Get(header)
		if v == "" {
			if h["required"] == true {
				c.problem("%s: the header %s is missing", where, header)
			}
			continue
		}
		c.text(where+", header "+header, hp+"/schema", v)
	}
	content := object(answer["content"])
	if r.Method == http.MethodHead {
		return
	}
	if content == nil {
		if res.ContentLength > 0 {
			c.problem("%s: a body that is not in the document", where)
		}
		return
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || content[kind] == nil {
		c.problem("%s: the content type %q is not in the document", where, res.Header.Get("Content-Type"))
		return
	}
	media := place + pointer("content", kind)
	switch kind {
	case "application/json":
		res.Body = &body{ReadCloser: res.Body, done: func(raw []byte) { c.bytes(where, media+"/schema", raw) }}
	case "text/event-stream":
		res.Body = &feed{ReadCloser: res.Body, checker: c, where: where, frame: media + "/x-frame"}
	}
}

// request checks a request that was taken.
func (c *Checker) request(where, base string, found *route, values map[string]string, op map[string]any, r *http.Request, sent []byte, whole bool) {
	check := func(at string, p map[string]any) {
		name := fmt.Sprint(p["name"])
		var v string
		var given bool
		switch p["in"] {
		case "path":
			v, given = values[name], true
		case "query":
			given = r.URL.Query().Has(name)
			v = r.URL.Query().Get(name)
			given = given && v != ""
		case "header":
			v = r.Header.Get(name)
			given = v != ""
		}
		if given {
			c.text(fmt.Sprintf("%s: the parameter %s of a request that was taken", where, name), at+"/schema", v)
		} else if p["required"] == true {
			c.problem("%s: the parameter %s is required, and the request was taken without", where, name)
		}
	}
	item := pointer("paths", found.path)
	for i := range items(found.item["parameters"]) {
		check(c.resolve(pointer("parameters", strconv.Itoa(i)), item, found.item))
	}
	for i := range items(op["parameters"]) {
		check(c.resolve(pointer("parameters", strconv.Itoa(i)), base, op))
	}
	for name := range r.URL.Query() {
		if !c.knows(op, found.item, name) {
			c.problem("%s: the query parameter %s is not in the document", where, name)
		}
	}
	place, b := c.resolve("/requestBody", base, op)
	if !whole {
		return
	}
	blank := len(bytes.TrimSpace(sent)) == 0
	switch {
	case b == nil: // clients may send an object to any route
	case blank && b["required"] == true:
		c.problem("%s: the body is required, and the request was taken without", where)
	case !blank && object(b["content"])["application/json"] != nil:
		c.bytes(where+": the body of a request that was taken", place+pointer("content", "application/json", "schema"), sent)
	}
}

func (c *Checker) knows(op, item map[string]any, name string) bool {
	for _, list := range [][]any{items(op["parameters"]), items(item["parameters"])} {
		for _, v := range list {
			_, p := c.target("", v)
			if p["in"] == "query" && p["name"] == name {
				return true
			}
		}
	}
	return false
}

func (c *Checker) find(path string) (*route, map[string]string) {
	for i, r := range c.routes {
		m := r.pattern.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		values := map[string]string{}
		for k, name := range r.names {
			v, err := url.PathUnescape(m[k+1])
			if err != nil {
				v = m[k+1]
			}
			values[name] = v
		}
		return &c.routes[i], values
	}
	return nil, nil
}

// resolve walks a pointer from a place, through a reference at its end.
func (c *Checker) resolve(path, base string, from any) (string, map[string]any) {
	v := from
	for _, part := range strings.Split(path, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n >= len(x) {
				return "", nil
			}
			v = x[n]
		default:
			return "", nil
		}
	}
	return c.target(base+path, v)
}

func (c *Checker) target(at string, v any) (string, map[string]any) {
	o := object(v)
	if to, ok := o["$ref"].(string); ok {
		path := strings.TrimPrefix(to, "#")
		return c.resolve(path, "", c.doc)
	}
	return at, o
}

func pointer(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return b.String()
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func items(v any) []any {
	l, _ := v.([]any)
	return l
}

func (c *Checker) schema(at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.schemas[at]; s != nil {
		return s, nil
	}
	s, err := c.compiler.Compile(root + "#" + (&url.URL{Path: at}).EscapedPath())
	if err == nil {
		c.schemas[at] = s
	}
	return s, err
}

// text checks a parameter or header, as what its schema wants it to be.
func (c *Checker) text(where, at, v string) {
	s, err := c.schema(at)
	if err != nil {
		c.problem("%s: %v", where, err)
		return
	}
	var value any = v
	if n := json.Number(v); s.Types != nil || s.Ref != nil {
		for _, want := range kinds(s) {
			if _, err := n.Int64(); want == "integer" && err == nil {
				value = n
			}
		}
	}
	if err := s.Validate(value); err != nil {
		c.problem("%s: %q: %v", where, v, err)
	}
}

func kinds(s *jsonschema.Schema) []string {
	if s.Ref != nil {
		return kinds(s.Ref)
	}
	if s.Types == nil {
		return nil
	}
	return s.Types.ToStrings()
}

func (c *Checker) bytes(where, at string, raw []byte) {
	s, err := c.schema(at)
	if err != nil {
		c.problem("%s: %v", where, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		c.problem("%s: %v\n  in %.300s", where, err, raw)
	}
}

// body checks a whole body at its end. One that is not read to its end is not
// checked.
type body struct {
	io.ReadCloser
	raw  bytes.Buffer
	done func([]byte)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.raw.Write(p[:n])
	if err == io.EOF && b.done != nil {
		b.done(b.raw.Bytes())
		b.done = nil
	}
	return n, err
}

// feed checks each frame as soon as it has been read.
type feed struct {
	io.ReadCloser
	checker      *Checker
	where, frame string
	line         []byte
	event, data  string
}

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			f.line = append(f.line, rest...)
			break
		}
		f.take(string(append(f.line, rest[:i]...)))
		f.line, rest = f.line[:0], rest[i+1:]
	}
	return n, err
}

func (f *feed) take(line string) {
	switch name, value, _ := strings.Cut(line, ":"); {
	case line == "" && f.data != "" && f.event == "resync":
		f.checker.bytes(f.where+", resync", pointer("components", "schemas", "Resync"), []byte(f.data))
	case line == "" && f.data != "" && f.event == "message":
		f.checker.bytes(f.where+", a frame", f.frame, []byte(f.data))
	case line == "" && f.data != "":
		f.checker.problem("%s: an event %q that is not in the document", f.where, f.event)
	case name == "event":
		f.event = value
		return
	case name == "data":
		f.data = value
		return
	default:
		return
	}
	f.event, f.data = "", ""
}
