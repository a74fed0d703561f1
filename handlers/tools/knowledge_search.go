package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers/retrieval"
)

// KnowledgeSearchName is the name of the tool that searches by meaning.
const KnowledgeSearchName = "knowledge_search"

// Searcher finds passages. Implementation: retrieval.Retriever.
type Searcher interface {
	Search(ctx context.Context, req retrieval.Request) (retrieval.Results, error)
}

// KnowledgeSearch finds passages of the knowledge bases by meaning and by words.
type KnowledgeSearch struct {
	Searcher Searcher
}

var knowledgeSearchDefinition = tool.Definition{
	Name:  KnowledgeSearchName,
	Title: "Search the knowledge bases",
	Description: "Find passages of the knowledge bases that answer questions. Give 1 to 5 complete questions or statements, in other words each; their results are joined. " +
		"For exact words, names or codes use " + GrepChunksName + "; to read on around a passage, " + ListKnowledgeChunksName + ".",
	Effect: tool.ReadOnly, Untrusted: true, Sources: true, Handles: map[string]string{"knowledge_base_ids": tool.HandleBase},
	Schema: json.RawMessage(`{"type":"object","properties":{
"queries":{"type":"array","minItems":1,"maxItems":5,"items":{"type":"string","minLength":1},"description":"Questions, each complete in itself."},
"knowledge_base_ids":{"type":"array","maxItems":10,"items":{"type":"string"},"description":"Handles of knowledge bases to search only; default: all of this question."}},
"required":["queries"]}`),
}

// Definition implements tool.Tool.
func (*KnowledgeSearch) Definition() tool.Definition { return knowledgeSearchDefinition }

// maxDirect is the longest answer that an entry gives by itself, in bytes.
const maxDirect = 256 << 10

type searchResult struct {
	Index    int             `json:"result_index"`
	Chunk    string          `json:"chunk_id,omitempty"`
	At       *int            `json:"chunk_index,omitempty"`
	FAQ      string          `json:"faq_id,omitempty"`
	Number   *int            `json:"index,omitempty"`
	Content  string          `json:"content"`
	Document string          `json:"knowledge_id"`
	Base     string          `json:"knowledge_base_id"`
	Title    string          `json:"knowledge_title"`
	Metadata json.RawMessage `json:"knowledge_metadata"`
	Match    int             `json:"match_type"`
	Score    float64         `json:"score"`
	Query    string          `json:"source_query"`
	Kind     string          `json:"query_type"`
	BaseKind string          `json:"knowledge_base_type"`
	Question string          `json:"faq_standard_question,omitempty"`
	Similar  []string        `json:"faq_similar_questions,omitempty"`
	Answers  []string        `json:"faq_answers,omitempty"`
	Omitted  int             `json:"faq_similar_questions_omitted,omitempty"`
}

type searchResults struct {
	DisplayType string           `json:"display_type"`
	Bases       []string         `json:"knowledge_base_ids"`
	Results     []searchResult   `json:"results"`
	Count       int              `json:"count"`
	Counts      map[string]int   `json:"kb_counts"`
	Queries     []string         `json:"queries"`
	Documents   int              `json:"doc_count"`
	Candidates  int              `json:"candidate_count"`
	Source      string           `json:"search_source"`
	Notes       []string         `json:"notes,omitempty"`
	Direct      string           `json:"direct_answer,omitempty"` // of a quick answer: see domain/run
	References  []tool.Reference `json:"references"`
}

// Run implements tool.Tool.
func (t *KnowledgeSearch) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Queries []string `json:"queries"`
		Bases   []string `json:"knowledge_base_ids"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("knowledge_search: " + err.Error()), nil
	}
	if c.Scope.Empty() {
		return tool.Failed(emptyScope), nil
	}
	scope := c.Scope
	if len(in.Bases) > 0 {
		for _, id := range in.Bases {
			if !scope.HoldsBase(id) {
				return outside("The knowledge base", id), nil
			}
		}
		scope = scope.Within(in.Bases...)
	}
	for i, q := range in.Queries {
		in.Queries[i] = q[:len(q)-len(skip(q, knowledge.MaxQuery))]
	}
	found, err := t.Searcher.Search(ctx, retrieval.Request{Tenant: c.Tenant, Scope: scope, Queries: in.Queries, Retrieval: c.Retrieval, Earlier: c.Earlier})
	if errors.Is(err, retrieval.ErrNoQuery) {
		return tool.Failed("Give 1 to 5 questions, none of them blank."), nil
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("search the knowledge bases: %w", err)
	}
	data := searchResults{DisplayType: "search_results", Bases: scope.Bases(), Results: []searchResult{}, Count: len(found.Hits), Counts: map[string]int{},
		Queries: in.Queries, Candidates: found.Candidates, Source: "knowledge", Notes: found.Notes, References: []tool.Reference{}}
	if found.Direct != nil && c.Quick && c.Retrieval.FAQPriority {
		if data.Direct = answerOf(found.Direct.FAQ, c.Run); len(data.Direct) > maxDirect {
			data.Direct = "" // too much for an answer: the model chooses from it
		}
	}
	return answer(t.text(c, found, &data), data)
}

// text is what the model reads; data gets the same for people.
func (t *KnowledgeSearch) text(c tool.Call, found retrieval.Results, data *searchResults) string {
	var b strings.Builder
	documents := map[string]bool{}
	shown := seen(c)
	fmt.Fprintf(&b, "<search_results count=\"%d\">\n", len(found.Hits))
	for _, q := range data.Queries {
		b.WriteString("<query>" + escaped(clipped(q, 300)) + "</query>\n")
	}
	for i, h := range found.Hits {
		documents[h.Entry.Document] = true
		data.Counts[h.Entry.Base]++
		data.add(i, h)
		if shown[h.Chunk.ID] {
			b.WriteString(repeated(h.Found, i+1))
			continue
		}
		text := h.Text
		if text == "" {
			text = h.Content
		}
		b.WriteString(passage(h.Found, i+1, text, map[string]string{"score": strconv.FormatFloat(h.Score, 'f', 2, 64), "source_query": clipped(h.Query, 200)}))
	}
	data.Documents = len(documents)
	for _, n := range found.Notes {
		b.WriteString("<note>" + escaped(n) + "</note>\n")
	}
	b.WriteString("</search_results>")
	if len(found.Hits) == 0 {
		b.WriteString("\nNothing was found. Ask in other words, or look for exact words with " + GrepChunksName + "; if that finds nothing either, say so. Do not make up what was not found.")
	}
	return b.String()
}

func (d *searchResults) add(i int, h retrieval.Hit) {
	match := map[string]int{retrieval.MatchKeyword: tool.MatchKeyword, retrieval.MatchVector: tool.MatchVector, retrieval.MatchHistory: tool.MatchHistory}[h.Match]
	at := h.Index
	r := searchResult{Index: i + 1, Content: oneText(h.Found), Document: h.Entry.Document, Base: h.Entry.Base, Title: h.Title, Match: match, Score: h.Score,
		Query: h.Query, Kind: h.Match, BaseKind: knowledge.KindDocument}
	if h.FAQ != nil {
		similar := h.FAQ.Similar[:min(len(h.FAQ.Similar), maxFAQSimilar)]
		r.FAQ, r.Number, r.BaseKind = h.Chunk.ID, &at, knowledge.KindFAQ
		r.Question, r.Similar, r.Answers, r.Omitted = h.FAQ.Question, similar, h.FAQ.Answers, len(h.FAQ.Similar)-len(similar)
	} else {
		r.Chunk, r.At = h.Chunk.ID, &at
	}
	d.Results = append(d.Results, r)
	ref := reference(h.Found, h.Score, match)
	if h.Text != "" && h.Text != h.Content {
		ref.Matched = ref.Content
	}
	d.References = append(d.References, ref)
}

// answerOf is the answer of an entry: all of them, or one, always the same for a
// run.
func answerOf(f *knowledge.FAQ, run string) string {
	answers := slices.DeleteFunc(slices.Clone(f.Answers), func(a string) bool { return strings.TrimSpace(a) == "" })
	if len(answers) == 0 {
		return ""
	}
	if f.Strategy == knowledge.AnswerRandom {
		h := fnv.New32a()
		h.Write([]byte(run))
		return answers[int(h.Sum32())%len(answers)]
	}
	return strings.Join(answers, "\n\n")
}
