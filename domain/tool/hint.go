package tool

import (
	"encoding/json"
	"strings"
)

// ErrorHint closes every failed result that a model reads.
const ErrorHint = "Work out why this failed before you go on: correct the arguments, or take another way to the goal."

// ForPeople is a failed result as people see it: without ErrorHint at its end.
func ForPeople(text string) string {
	if text, hinted := strings.CutSuffix(text, ErrorHint); hinted {
		return strings.TrimSuffix(text, "\n")
	}
	return text
}

// hintBytes is how much of an argument a hint shows.
const hintBytes = 40

// CallHint says for people what a call does: the tool's title and the first
// argument that is text, at most 40 bytes of it. Sensitive tools show the title
// alone.
func CallHint(def Definition, args json.RawMessage) string {
	title := def.Title
	if title == "" {
		title = def.Name
	}
	if def.Sensitive || !json.Valid(args) {
		return title
	}
	r := &reader{text: string(args)}
	n, err := r.value(0)
	if err != nil || n.kind != '{' {
		return title
	}
	for _, v := range n.items {
		if v.kind != '"' {
			continue
		}
		text := strings.Join(strings.Fields(Reveal(unquote(v.raw))), " ")
		if text == "" {
			continue
		}
		if short := cut(text, hintBytes); short != text {
			text = strings.TrimSpace(short) + "…"
		}
		return title + `("` + text + `")`
	}
	return title
}
