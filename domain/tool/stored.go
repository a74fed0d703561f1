package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// What is kept of a result for people, in read models and in the frames of
// feeds, is less than what the model reads and the record holds. Facts are never
// cut down by these rules; Stored is applied where documents and frames are made.
const (
	// MaxStoredData bounds the payload of one result, in bytes. Of a larger one
	// the members of at most MaxStoredMember bytes are kept.
	MaxStoredData   = 256 << 10
	MaxStoredMember = 4 << 10
	// MaxSandboxOutput bounds the output of a sandbox, in bytes.
	MaxSandboxOutput = 4 << 10
)

// bulky are the members of a payload that repeat, in bulk, what the result lists
// or what the model alone has to read: by display_type, or by name for tools
// without one. A new tool with such members adds its line here.
var bulky = map[string][]string{
	"knowledge_chunks_list": {"chunks", "references"},
	"grep_results":          {"chunk_results", "references"},
	"search_results":        {"references"}, // shown as such
	"web_search_results":    {"references"},
	"web_fetch_results":     {"references"},
	"shell_exec":            sandbox,
	"read_sandbox_file":     sandbox,
}

var sandbox = []string{"stdout", "stderr", "content", "content_base64"}

// sandboxed are the tools whose output comes out of a sandbox.
var sandboxed = []string{"shell_exec", "read_sandbox_file", "execute_skill_script"}

// DisplayType is how the UI shows a payload; "" if it shows the output.
func DisplayType(data json.RawMessage) string {
	var d struct {
		DisplayType string `json:"display_type"`
	}
	if len(data) == 0 || json.Unmarshal(data, &d) != nil {
		return ""
	}
	return d.DisplayType
}

// Stored is a result of the tool name as it is kept for people. A payload with a
// display_type stands for the output, of which one line is left (Summary), and
// of a failure none; ErrorHint is for the model and not kept; bulky members are taken out; the output of a sandbox is cut
// in the middle. The payload's bytes are as they came unless something was taken
// out.
func Stored(name string, success bool, output string, data json.RawMessage) (string, json.RawMessage) {
	kind := DisplayType(data)
	if !success {
		output = ForPeople(output)
	}
	switch {
	case kind != "" && success:
		output = Summary(name, data)
	case kind != "":
		output = "" // the error says what there is to say
	case slices.Contains(sandboxed, name):
		output = cutMiddle(output, MaxSandboxOutput)
	}
	return output, without(data, append(slices.Clip(bulky[kind]), bulky[name]...))
}

// without takes members out of a payload, and large ones out of one that is too
// large.
func without(data json.RawMessage, names []string) json.RawMessage {
	if len(names) == 0 && len(data) <= MaxStoredData {
		return data
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		if len(data) <= MaxStoredData {
			return data
		}
		return nil
	}
	before, size := len(members), 2
	for _, n := range names {
		delete(members, n)
	}
	for n, raw := range members {
		size += len(n) + len(raw) + 4
	}
	if size > MaxStoredData {
		maps.DeleteFunc(members, func(_ string, raw json.RawMessage) bool { return len(raw) > MaxStoredMember })
		members["omitted"] = json.RawMessage(`"the payload is too large to be kept here"`)
	} else if len(members) == before {
		return data
	}
	out, err := json.Marshal(members)
	if err != nil || len(out) > MaxStoredData {
		return nil
	}
	return out
}

// Summary is one line about a payload for the UI: what was listed or found, how
// many, and from where; without any of that it says that the tool completed. ""
// if the payload has no display_type.
func Summary(name string, data json.RawMessage) string {
	if DisplayType(data) == "" {
		return ""
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(data, &members) // it is an object: it has a display_type
	var facts []string
	for key, raw := range members {
		var list []json.RawMessage
		var text string
		switch {
		case len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil && len(list) > 0:
			facts = append(facts, fmt.Sprintf("%d %s", len(list), strings.ReplaceAll(key, "_", " ")))
		case slices.Contains(places, key) && json.Unmarshal(raw, &text) == nil && text != "":
			short, _ := Truncate(strings.Join(strings.Fields(text), " "), 120)
			facts = append(facts, fmt.Sprintf("%s %q", strings.ReplaceAll(key, "_", " "), short))
		}
	}
	slices.Sort(facts)
	const most = 8
	if len(facts) > most {
		facts = facts[:most]
	}
	if len(facts) == 0 {
		return name + " completed; its payload is left out here."
	}
	return fmt.Sprintf("%s completed: %s. The payload is left out here.", name, strings.Join(facts, ", "))
}

// places are the members that say what was looked for, and where.
var places = []string{"query", "pattern", "path", "dir", "url", "task", "title", "slug", "knowledge_title", "file_name"}

// cutMiddle keeps text within a number of bytes: the first quarter and the last
// three, with what is left out in numbers between them.
func cutMiddle(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "\n... [%d bytes left out] ...\n"
	room := limit - len(mark) - 20
	head, tail := room/4, len(text)-(room-room/4)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + fmt.Sprintf(mark, tail-head) + text[tail:]
}

// kept are the members that later decisions and readers need of a payload that is
// too large; references go last.
var kept = []string{"display_type", "count", "queries", "direct_answer", "references"}

// Shrink gives a payload of at most limit bytes: of a larger one the largest
// members are left out until it fits, those in kept last; nil if nothing helps.
func Shrink(data json.RawMessage, limit int) json.RawMessage {
	if len(data) <= limit {
		return data
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	names := slices.Collect(maps.Keys(members))
	slices.SortFunc(names, func(a, b string) int {
		ka, kb := slices.Contains(kept, a), slices.Contains(kept, b)
		switch {
		case ka != kb && ka:
			return 1
		case ka != kb:
			return -1
		case len(members[a]) != len(members[b]):
			return len(members[b]) - len(members[a])
		}
		return strings.Compare(a, b)
	})
	members["omitted"] = json.RawMessage(`"the payload is too large to be kept whole"`)
	for _, name := range names {
		delete(members, name)
		if out, err := json.Marshal(members); err == nil && len(out) <= limit {
			return out
		}
	}
	return nil
}
