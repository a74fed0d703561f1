package tools

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"refold/domain/knowledge"
	"refold/domain/tool"
)

// How much of an FAQ entry a result shows.
const (
	maxFAQAnswer  = 600 // runes of all answers
	maxFAQSimilar = 5
)

// attr writes an attribute of a tag that the model reads. Values are escaped, so
// that no text can end the tag or forge another.
func attr(b *strings.Builder, name, value string) {
	if value == "" {
		return
	}
	b.WriteString(" " + name + `="`)
	b.WriteString(escaped(value))
	b.WriteString(`"`)
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return strings.NewReplacer("&#xA;", "\n", "&#x9;", "\t", "&#39;", "'").Replace(b.String())
}

// clipped is a title or the like: no line breaks, no more than n runes.
func clipped(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:len(s)-len(skip(s, n))]
}

// tagOf opens the tag of a passage with all that names it: see domain/citation.
// A repeated one says only that it is.
func tagOf(f knowledge.Found, rank int, more map[string]string) string {
	var b strings.Builder
	name := "chunk"
	if f.FAQ != nil {
		name = "faq"
	}
	b.WriteString("<" + name)
	if rank > 0 {
		attr(&b, "rank", strconv.Itoa(rank))
	}
	if f.FAQ != nil {
		attr(&b, "faq_id", f.Chunk.ID)
	} else {
		attr(&b, "chunk_id", f.Chunk.ID)
		attr(&b, "chunk_index", strconv.Itoa(f.Index))
	}
	attr(&b, "knowledge_id", f.Entry.Document)
	attr(&b, "knowledge_base_id", f.Entry.Base)
	attr(&b, "knowledge_title", clipped(f.Title, 200))
	if f.Kind != knowledge.Text && f.FAQ == nil {
		attr(&b, "kind", string(f.Kind))
	}
	attr(&b, "section", clipped(f.Context, 200))
	keys := make([]string, 0, len(more))
	for k := range more {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		attr(&b, k, more[k])
	}
	return b.String()
}

// passage shows a chunk, or an FAQ entry, to the model. text stands for its
// content.
func passage(f knowledge.Found, rank int, text string, more map[string]string) string {
	open := tagOf(f, rank, more)
	if f.FAQ == nil {
		return open + ">\n" + escaped(text) + "\n</chunk>\n"
	}
	var b strings.Builder
	b.WriteString(open + ">\n<question>" + escaped(clipped(f.FAQ.Question, 1000)) + "</question>\n")
	for _, q := range f.FAQ.Similar[:min(len(f.FAQ.Similar), maxFAQSimilar)] {
		b.WriteString("<similar_question>" + escaped(clipped(q, 300)) + "</similar_question>\n")
	}
	left := maxFAQAnswer
	for _, a := range f.FAQ.Answers {
		if left <= 0 {
			break
		}
		cut := a[:len(a)-len(skip(a, left))]
		left -= len([]rune(cut))
		if len(cut) < len(a) {
			cut += " ..."
		}
		b.WriteString("<answer>" + escaped(cut) + "</answer>\n")
	}
	b.WriteString("</faq>\n")
	return b.String()
}

// repeated shows a passage that the model has read already.
func repeated(f knowledge.Found, rank int) string {
	return tagOf(f, rank, map[string]string{"already_seen": "true"}) + "/>\n"
}

// reference is a passage as evidence.
func reference(f knowledge.Found, score float64, match int) tool.Reference {
	return tool.Reference{ID: f.Chunk.ID, Content: oneText(f), Document: f.Entry.Document, Base: f.Entry.Base, Index: f.Index, Title: f.Title, Seq: f.Index,
		Start: f.Start, End: f.End, Score: score, Match: match, Kind: string(f.Kind), Parent: f.Parent, File: f.Title,
		Metadata: map[string]string{"revision": strconv.Itoa(f.Chunk.Revision), "digest": f.Digest, "edition": strconv.Itoa(f.Edition)}}
}

// oneText is the text of a chunk as evidence, at most tool.MaxReferenceText runes.
func oneText(f knowledge.Found) string {
	text := f.Content
	if f.FAQ != nil {
		text = f.FAQ.Question + "\n" + strings.Join(f.FAQ.Answers, "\n")
	}
	return text[:len(text)-len(skip(text, tool.MaxReferenceText))]
}

// sourceTools are those whose results the model has read as passages.
var sourceTools = []string{KnowledgeSearchName, GrepChunksName, ListKnowledgeChunksName}

// seen are the chunks that earlier calls of this run have shown.
func seen(c tool.Call) map[string]bool {
	out := map[string]bool{}
	if c.State == nil {
		return out
	}
	for _, name := range sourceTools {
		for _, data := range c.State.Results(name) {
			for _, r := range tool.ReferencesOf(data) {
				out[r.ID] = true
			}
		}
	}
	return out
}

// outside says that something is not in the scope of the run.
func outside(what, id string) tool.Result {
	return tool.Failed(fmt.Sprintf("%s %q is not part of the knowledge that this question may use. Use handles from the results of searches.", what, clipped(id, 100)))
}

const emptyScope = "No knowledge base is available for this question, so there is nothing to look into."
