package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"refold/domain/knowledge"
	"refold/domain/tool"
)

// GetDocumentInfoName is the name of the tool that describes documents.
const GetDocumentInfoName = "get_document_info"

// DocumentInfo is what is known about a document.
type DocumentInfo struct {
	ID, Base, Title, Description, Kind string // kind: file, url, manual ...
	Source, File, FileType, Status     string
	Size                               int64
	Chunks                             int
	Metadata                           map[string]string
	Disabled                           bool
	CreatedAt, UpdatedAt               time.Time
}

// Library describes the documents of a tenant.
type Library interface {
	// Documents gives those of the ids that exist, in no particular order.
	Documents(ctx context.Context, tenant string, ids ...string) ([]DocumentInfo, error)
}

// GetDocumentInfo describes documents and FAQ entries.
type GetDocumentInfo struct {
	Library Library
	Index   knowledge.Index
}

var getDocumentInfoDefinition = tool.Definition{
	Name:  GetDocumentInfoName,
	Title: "Look at documents",
	Description: "Get what is known about documents (title, type, size, state, number of passages, description, dates) or FAQ entries (question, answers). " +
		"Give knowledge_ids, faq_ids or both.",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true,
	Handles: map[string]string{"knowledge_ids": tool.HandleDocument, "faq_ids": tool.HandleChunk},
	Schema: json.RawMessage(`{"type":"object","properties":{
"knowledge_ids":{"type":"array","maxItems":20,"items":{"type":"string"},"description":"Handles of documents."},
"faq_ids":{"type":"array","maxItems":20,"items":{"type":"string"},"description":"Handles of FAQ entries."}}}`),
}

// Definition implements tool.Tool.
func (*GetDocumentInfo) Definition() tool.Definition { return getDocumentInfoDefinition }

type documentInfo struct {
	Document    string            `json:"knowledge_id,omitempty"`
	Title       string            `json:"title"`
	Description string            `json:"description,omitempty"`
	Type        string            `json:"type"`
	Source      string            `json:"source,omitempty"`
	File        string            `json:"file_name,omitempty"`
	FileType    string            `json:"file_type,omitempty"`
	Size        int64             `json:"file_size,omitempty"`
	Status      string            `json:"parse_status,omitempty"`
	Chunks      int               `json:"chunk_count"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	IsFAQ       bool              `json:"is_faq"`
	FAQ         string            `json:"faq_id,omitempty"`
	Question    string            `json:"faq_question,omitempty"`
	Answers     []string          `json:"faq_answers,omitempty"`
	Similar     []string          `json:"faq_similar_questions,omitempty"`
}

type documentInfos struct {
	DisplayType string         `json:"display_type"`
	Documents   []documentInfo `json:"documents"`
	Total       int            `json:"total_docs"`
	Requested   int            `json:"requested"`
	Errors      []string       `json:"errors"`
	Title       string         `json:"title"`
}

// Run implements tool.Tool.
func (t *GetDocumentInfo) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Documents []string `json:"knowledge_ids"`
		FAQs      []string `json:"faq_ids"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("get_document_info: " + err.Error()), nil
	}
	if len(in.Documents)+len(in.FAQs) == 0 {
		return tool.Failed("Give knowledge_ids or faq_ids."), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	docs, err := t.Library.Documents(ctx, c.Tenant, in.Documents...)
	if err != nil {
		return tool.Result{}, fmt.Errorf("look at documents: %w", err)
	}
	faqs, err := t.Index.Chunks(ctx, c.Tenant, in.FAQs...)
	if err != nil {
		return tool.Result{}, fmt.Errorf("look at FAQ entries: %w", err)
	}
	data := documentInfos{DisplayType: "document_info", Documents: []documentInfo{}, Requested: len(in.Documents) + len(in.FAQs), Title: "Document information"}
	var b strings.Builder
	for _, id := range in.Documents {
		i := slices.IndexFunc(docs, func(d DocumentInfo) bool { return d.ID == id })
		if i < 0 || docs[i].Disabled || !c.Scope.Holds(docs[i].Base, id) {
			data.Errors = append(data.Errors, outside("The document", id).Error)
			continue
		}
		d := docs[i]
		data.Documents = append(data.Documents, documentInfo{Document: d.ID, Title: d.Title, Description: d.Description, Type: d.Kind, Source: d.Source,
			File: d.File, FileType: d.FileType, Size: d.Size, Status: d.Status, Chunks: d.Chunks, Metadata: d.Metadata})
		b.WriteString(d.tag())
	}
	for _, id := range in.FAQs {
		i := slices.IndexFunc(faqs, func(f knowledge.Found) bool { return f.Chunk.ID == id })
		if i < 0 || faqs[i].FAQ == nil || !visible(c, faqs[i]) {
			data.Errors = append(data.Errors, outside("The FAQ entry", id).Error)
			continue
		}
		f := faqs[i]
		data.Documents = append(data.Documents, documentInfo{Title: f.FAQ.Question, Type: "faq", Chunks: 1, IsFAQ: true, FAQ: id, Question: f.FAQ.Question,
			Answers: f.FAQ.Answers, Similar: f.FAQ.Similar})
		b.WriteString(passage(f, 0, f.Content, nil))
	}
	data.Total = len(data.Documents)
	for _, e := range data.Errors {
		b.WriteString("<error>" + escaped(e) + "</error>\n")
	}
	out, err := answer("<document_info>\n"+b.String()+"</document_info>", data)
	if data.Total == 0 {
		out.Output, out.Error = "", strings.Join(data.Errors, " ")
	}
	return out, err
}

// tag shows a document to the model.
func (d DocumentInfo) tag() string {
	var b strings.Builder
	b.WriteString("<file")
	for _, a := range []struct{ name, value string }{{"knowledge_id", d.ID}, {"knowledge_base_id", d.Base}, {"title", clipped(d.Title, 200)}, {"type", d.Kind},
		{"file_name", clipped(d.File, 200)}, {"file_type", d.FileType}, {"source", clipped(d.Source, 500)}, {"status", d.Status}, {"passages", strconv.Itoa(d.Chunks)}} {
		attr(&b, a.name, a.value)
	}
	if d.Size > 0 {
		attr(&b, "bytes", strconv.FormatInt(d.Size, 10))
	}
	if !d.UpdatedAt.IsZero() {
		attr(&b, "updated", d.UpdatedAt.UTC().Format(time.RFC3339))
	}
	if d.Description == "" {
		b.WriteString("/>\n")
		return b.String()
	}
	b.WriteString(">" + escaped(clipped(d.Description, 1000)) + "</file>\n")
	return b.String()
}
