package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Document is the OpenAPI 3.1 document of every route, written by hand.
//
//go:embed openapi.json
var Document []byte

//go:embed docs.html
var docsTemplate string

// openAPI serves the document.
func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(Document) // the client may be gone
}

// docs serves the document as a page to read: no script, nothing from elsewhere.
func (a *API) docs(w http.ResponseWriter, r *http.Request) {
	page, err := docsPage()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(page) // the client may be gone
}

var docsPage = sync.OnceValues(func() ([]byte, error) { return renderDocs(Document) })

// renderDocs makes the page of a document. The template escapes what it shows.
func renderDocs(document []byte) ([]byte, error) {
	var d map[string]any
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	m := manual{d}
	t, err := template.New("docs").Funcs(template.FuncMap{"lines": func(v any) []string { return strings.Split(fmt.Sprint(orEmpty(v)), "\n\n") }}).Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("the page of the OpenAPI document: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Info": d["info"], "Groups": m.groups(), "Schemas": m.schemas(), "Security": m.at("components", "securitySchemes")}); err != nil {
		return nil, fmt.Errorf("the page of the OpenAPI document: %w", err)
	}
	return b.Bytes(), nil
}

func orEmpty(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// manual reads a document for the page.
type manual struct{ doc map[string]any }

type manualGroup struct {
	Name, Description string
	Operations        []manualOperation
}

type manualOperation struct {
	ID, Method, Path, Summary, Description string
	Parameters                             []manualRow
	Body                                   *manualBody
	Responses                              []manualResponse
}

type manualRow struct {
	Name, In, Schema, Description string
	Required                      bool
}

type manualBody struct{ Type, Schema, Example string }

type manualResponse struct {
	Status, Description string
	Headers             []manualRow
	Bodies              []manualBody
}

type manualSchema struct{ Name, Text string }

// at walks down the document.
func (m manual) at(path ...string) map[string]any { return within(m.doc, path...) }

func within(v any, path ...string) map[string]any {
	for _, name := range path {
		o, _ := v.(map[string]any)
		v = o[name]
	}
	o, _ := v.(map[string]any)
	return o
}

// follow gives what a reference names, or the value itself.
func (m manual) follow(v any) map[string]any {
	o, _ := v.(map[string]any)
	if to, ok := o["$ref"].(string); ok {
		return m.at(strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
	}
	return o
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func items(v any) []any {
	l, _ := v.([]any)
	return l
}

func (m manual) groups() []manualGroup {
	var out []manualGroup
	place := map[string]int{}
	for i, tag := range items(m.doc["tags"]) {
		o := within(tag)
		out = append(out, manualGroup{Name: text(o["name"]), Description: text(o["description"])})
		place[text(o["name"])] = i
	}
	for path, item := range m.at("paths") {
		shared := items(within(item)["parameters"])
		for method, v := range within(item) {
			if method == "parameters" {
				continue
			}
			o := m.operation(method, path, within(v), shared)
			if tags := items(within(v)["tags"]); len(tags) > 0 {
				if i, ok := place[text(tags[0])]; ok {
					out[i].Operations = append(out[i].Operations, o)
				}
			}
		}
	}
	for _, g := range out {
		sort.Slice(g.Operations, func(i, j int) bool {
			x, y := g.Operations[i], g.Operations[j]
			return x.Path+" "+x.Method < y.Path+" "+y.Method
		})
	}
	return out
}

func (m manual) operation(method, path string, o map[string]any, shared []any) manualOperation {
	out := manualOperation{ID: text(o["operationId"]), Method: strings.ToUpper(method), Path: path, Summary: text(o["summary"]), Description: text(o["description"])}
	for _, v := range slices.Concat(shared, items(o["parameters"])) {
		p := m.follow(v)
		required, _ := p["required"].(bool)
		out.Parameters = append(out.Parameters, manualRow{text(p["name"]), text(p["in"]), compact(p["schema"]), text(p["description"]), required})
	}
	for _, b := range bodies(within(o, "requestBody", "content")) {
		out.Body = &b
	}
	for _, status := range sorted(within(o, "responses")) {
		res := m.follow(within(o, "responses")[status])
		r := manualResponse{Status: status, Description: text(res["description"]), Bodies: bodies(within(res, "content"))}
		for _, name := range sorted(within(res, "headers")) {
			h := m.follow(within(res, "headers")[name])
			r.Headers = append(r.Headers, manualRow{Name: name, Description: text(h["description"])})
		}
		out.Responses = append(out.Responses, r)
	}
	return out
}

func bodies(content map[string]any) []manualBody {
	var out []manualBody
	for _, kind := range sorted(content) {
		c := within(content[kind])
		b := manualBody{Type: kind, Schema: compact(c["schema"])}
		if frame := c["x-frame"]; frame != nil {
			b.Schema += ", data of frames: " + compact(frame)
		}
		if examples := items(within(c["schema"])["examples"]); len(examples) > 0 {
			b.Example = pretty(examples[0])
		}
		out = append(out, b)
	}
	return out
}

func (m manual) schemas() []manualSchema {
	all := m.at("components", "schemas")
	var out []manualSchema
	for _, name := range sorted(all) {
		out = append(out, manualSchema{name, pretty(all[name])})
	}
	return out
}

func sorted(o map[string]any) []string {
	out := make([]string, 0, len(o))
	for name := range o {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// compact shows a schema on one line: a name if it has one.
func compact(v any) string {
	o := within(v)
	if to, ok := o["$ref"].(string); ok {
		return to[strings.LastIndex(to, "/")+1:]
	}
	plain := map[string]any{}
	for name, value := range o {
		if name != "description" && name != "examples" {
			plain[name] = value
		}
	}
	return encode(plain, "")
}

func pretty(v any) string { return encode(v, "  ") }

func encode(v any, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the template does it
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
