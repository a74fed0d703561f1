package api

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"refold/domain/knowledge"
)

// maxExact is the largest integer that JSON numbers hold exactly everywhere.
const maxExact = 1<<53 - 1

// bound is a text of a request as it was sent, and how many characters it may have.
// What is kept of it may be shorter.
type bound struct {
	name, text string
	most       int
}

// bounded refuses texts that are too long.
func bounded(bounds ...bound) error {
	for _, b := range bounds {
		if utf8.RuneCountInString(b.text) > b.most {
			return invalid(b.name + " has at most " + itoa(b.most) + " characters")
		}
	}
	return nil
}

// textOf gives a text that may be absent.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// blank tells whether nothing of a text can be seen: white space and control
// characters only.
func blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsControl(r) })
}

// boundedList refuses a list with too many texts, or with one that is too long.
func boundedList(name string, list []string, items, most int) error {
	if len(list) > items {
		return invalid(name + " has at most " + itoa(items) + " items")
	}
	for _, text := range list {
		if err := bounded(bound{"an item of " + name, text, most}); err != nil {
			return err
		}
	}
	return nil
}

// boundedNumbers refuses a list of numbers of entries or tags that is too long, or
// holds what none of them has.
func boundedNumbers(name string, list []int64, items int) error {
	if len(list) > items {
		return invalid(name + " has at most " + itoa(items) + " numbers")
	}
	for _, n := range list {
		if n < 1 || n > maxExact {
			return invalid(name + " holds numbers from 1 to " + itoa(maxExact))
		}
	}
	return nil
}

// process checks what a request says about processing; nil if it says nothing.
func process(raw json.RawMessage) (json.RawMessage, error) {
	if raw = notNull(raw); len(raw) == 0 {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, invalid("process_config must be an object")
	}
	raw = wholeNumbers(raw)
	var p struct {
		Chunking *knowledge.Chunking `json:"chunking_config"`
	}
	if err := parse(raw, &p); err != nil || p.Chunking == nil {
		return raw, err
	}
	return raw, p.Chunking.Check()
}

// notNull makes null nothing.
func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
