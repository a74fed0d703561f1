package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"refold/domain/tool"
)

// ReadToolResultName is the name of the tool that pages long results.
const ReadToolResultName = "read_tool_result"

const (
	defaultPage = 8000  // runes
	maxPage     = 16000 // runes
)

// ErrNoResult says that a run has no stored result of a call.
var ErrNoResult = errors.New("no such tool result")

// ResultReader gives stored results of the calls of a run.
type ResultReader interface {
	// ReadResult gives the full output of a call, as it was before truncation;
	// ErrNoResult if this tenant's run has none of that id.
	ReadResult(ctx context.Context, tenant, run, callID string) (string, error)
}

// ReadToolResult pages through the full output of an earlier call of the run.
type ReadToolResult struct {
	Results ResultReader
}

var readToolResultDefinition = tool.Definition{
	Name:  ReadToolResultName,
	Title: "Read a long result",
	Description: "Read more of an earlier result of this conversation turn that was shown shortened. Give the id of that call; " +
		"the answer tells the whole length and the offset of the next page. Not for results that were shown whole.",
	Effect:    tool.ReadOnly,
	Untrusted: true,
	MaxOutput: maxPage + 500, // room for the first line
	Schema: json.RawMessage(`{"type":"object","properties":{
"call_id":{"type":"string","minLength":1,"description":"Id of the tool call whose result to read."},
"offset":{"type":"integer","minimum":0,"description":"First character to read, default 0."},
"limit":{"type":"integer","minimum":1,"maximum":16000,"description":"How many characters, default 8000."}},
"required":["call_id"]}`),
}

// Definition implements tool.Tool.
func (*ReadToolResult) Definition() tool.Definition { return readToolResultDefinition }

type resultPage struct {
	CallID string `json:"call_id"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	Total  int    `json:"total"`
	Next   int    `json:"next_offset,omitempty"`
}

// Run implements tool.Tool.
func (t *ReadToolResult) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	in := struct {
		CallID string `json:"call_id"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}{Limit: defaultPage}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("read_tool_result: " + err.Error()), nil
	}
	in.Limit = min(max(in.Limit, 1), maxPage)
	text, err := t.Results.ReadResult(ctx, c.Tenant, c.Run, in.CallID)
	if errors.Is(err, ErrNoResult) {
		return tool.Failed(fmt.Sprintf("There is no stored result of a call with the id %q in this turn.", in.CallID)), nil
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("read the stored result: %w", err)
	}
	text = tool.Sanitize(text)
	page := resultPage{CallID: in.CallID, Offset: in.Offset, Total: utf8.RuneCountInString(text)}
	if in.Offset < 0 || in.Offset >= page.Total && page.Total > 0 || in.Offset > page.Total {
		return tool.Failed(fmt.Sprintf("The result has %d characters, offset %d lies past its end.", page.Total, in.Offset)), nil
	}
	piece := skip(text, in.Offset)
	piece = piece[:len(piece)-len(skip(piece, in.Limit))]
	page.Length = utf8.RuneCountInString(piece)
	end := in.Offset + page.Length
	head := fmt.Sprintf("[result of call %s: characters %d-%d of %d; ", in.CallID, in.Offset, end, page.Total)
	if end < page.Total {
		page.Next = end
		head += fmt.Sprintf("next offset %d]", end)
	} else {
		head += "this is the end]"
	}
	return answer(head+"\n"+piece, page)
}

// skip gives text without its first n runes.
func skip(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[i:]
		}
		n--
	}
	return ""
}
