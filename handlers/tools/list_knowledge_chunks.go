package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"refold/domain/knowledge"
	"refold/domain/tool"
)

// ListKnowledgeChunksName is the name of the tool that reads a document.
const ListKnowledgeChunksName = "list_knowledge_chunks"

// ListKnowledgeChunks reads the passages of a document in order, or one passage.
type ListKnowledgeChunks struct {
	Index knowledge.Index
}

var listKnowledgeChunksDefinition = tool.Definition{
	Name:  ListKnowledgeChunksName,
	Title: "Read a document",
	Description: "Read the passages of a document in order, page by page, or one passage or FAQ entry whole. Give exactly one of knowledge_id, chunk_id, faq_id. " +
		"Use it when a search has found a part and the rest around it matters.",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true,
	Handles: map[string]string{"knowledge_id": tool.HandleDocument, "chunk_id": tool.HandleChunk, "faq_id": tool.HandleChunk},
	Schema: json.RawMessage(`{"type":"object","properties":{
"knowledge_id":{"type":"string","description":"Handle of the document."},
"chunk_id":{"type":"string","description":"Handle of one passage."},
"faq_id":{"type":"string","description":"Handle of one FAQ entry."},
"offset":{"type":"integer","minimum":0,"description":"First passage of the page, from 0."},
"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Passages of a page, default 20."}}}`),
}

// Definition implements tool.Tool.
func (*ListKnowledgeChunks) Definition() tool.Definition { return listKnowledgeChunksDefinition }

type listedChunk struct {
	Chunk   string `json:"chunk_id"`
	Index   int    `json:"chunk_index"`
	Kind    string `json:"chunk_type"`
	Section string `json:"section,omitempty"`
	Content string `json:"content"`
}

type listedChunks struct {
	DisplayType string           `json:"display_type"`
	Document    string           `json:"knowledge_id"`
	Title       string           `json:"knowledge_title"`
	Total       int              `json:"total_chunks"`
	Fetched     int              `json:"fetched_chunks"`
	Page        int              `json:"page,omitempty"`
	PageSize    int              `json:"page_size,omitempty"`
	Offset      int              `json:"offset,omitempty"`
	Next        int              `json:"next_offset,omitempty"`
	Suggested   *int             `json:"suggested_offset,omitempty"`
	FAQ         string           `json:"faq_id,omitempty"`
	Question    string           `json:"faq_question,omitempty"`
	Single      bool             `json:"single_chunk,omitempty"`
	Chunks      []listedChunk    `json:"chunks"`
	References  []tool.Reference `json:"references"`
}

// Run implements tool.Tool.
func (t *ListKnowledgeChunks) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	in := struct {
		Document string `json:"knowledge_id"`
		Chunk    string `json:"chunk_id"`
		FAQ      string `json:"faq_id"`
		Offset   int    `json:"offset"`
		Limit    int    `json:"limit"`
	}{Limit: 20}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("list_knowledge_chunks: " + err.Error()), nil
	}
	given := 0
	for _, id := range []string{in.Document, in.Chunk, in.FAQ} {
		if id != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return tool.Failed("Give exactly one of knowledge_id, chunk_id and faq_id."), nil
	case c.Scope.Empty():
		return tool.Failed(emptyScope), nil
	case in.Document == "":
		return t.one(ctx, c, in.Chunk+in.FAQ)
	}
	return t.page(ctx, c, in.Document, max(0, in.Offset), min(max(1, in.Limit), 100))
}

// one reads a single passage.
func (t *ListKnowledgeChunks) one(ctx context.Context, c tool.Call, id string) (tool.Result, error) {
	list, err := t.Index.Chunks(ctx, c.Tenant, id)
	if err != nil {
		return tool.Result{}, fmt.Errorf("read a passage: %w", err)
	}
	if len(list) == 0 || !visible(c, list[0]) {
		return outside("The passage", id), nil
	}
	f := list[0]
	data := listedChunks{DisplayType: "knowledge_chunks_list", Document: f.Entry.Document, Title: f.Title, Total: 1, Fetched: 1, Single: true}
	if f.FAQ != nil {
		data.FAQ, data.Question = f.Chunk.ID, f.FAQ.Question
	}
	data.add(f)
	return answer(passage(f, 0, f.Content, nil), data)
}

// visible tells whether a run may see a passage.
func visible(c tool.Call, f knowledge.Found) bool {
	return c.Scope.Holds(f.Entry.Base, f.Entry.Document) && !f.Chunk.Disabled && !f.Entry.Disabled
}

func (d *listedChunks) add(f knowledge.Found) {
	d.Chunks = append(d.Chunks, listedChunk{f.Chunk.ID, f.Index, string(f.Kind), f.Context, f.Content})
	d.References = append(d.References, reference(f, 1, tool.MatchDirect))
}

func (t *ListKnowledgeChunks) page(ctx context.Context, c tool.Call, document string, offset, limit int) (tool.Result, error) {
	l := knowledge.List{Tenant: c.Tenant, Document: document, Kinds: []knowledge.Kind{knowledge.Text, knowledge.FAQText, knowledge.TableSummary, knowledge.TableColumn}, Limit: 1}
	first, total, err := t.Index.List(ctx, l)
	if err != nil {
		return tool.Result{}, fmt.Errorf("read a document: %w", err)
	}
	if len(first) == 0 || !visible(c, first[0]) {
		return outside("The document", document), nil
	}
	data := listedChunks{DisplayType: "knowledge_chunks_list", Document: document, Title: first[0].Title, Total: total,
		Page: offset/limit + 1, PageSize: limit, Offset: offset, Chunks: []listedChunk{}, References: []tool.Reference{}}
	if offset >= total {
		last := max(0, total-limit)
		data.Suggested = &last
		out, err := answer("", data)
		out.Error = fmt.Sprintf("The document has %d passages, offset %d lies past its end; try offset %d.", total, offset, last)
		return out, err
	}
	l.Offset, l.Limit = offset, limit
	list, total, err := t.Index.List(ctx, l)
	if err != nil {
		return tool.Result{}, fmt.Errorf("read a document: %w", err)
	}
	var b strings.Builder
	for _, f := range list {
		if !visible(c, f) { // disabled since
			continue
		}
		data.add(f)
		b.WriteString(passage(f, 0, f.Content, nil))
	}
	data.Total, data.Fetched = total, len(data.Chunks)
	head := fmt.Sprintf("<passages from=\"%d\" to=\"%d\" of=\"%d\"", offset, offset+len(list)-1, total)
	if end := offset + len(list); end < total {
		data.Next = end
		head += fmt.Sprintf(" next_offset=\"%d\"", end)
	}
	return answer(head+">\n"+b.String()+"</passages>", data)
}
