package scripted

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAnthropic(t *testing.T) {
	use := func(ids ...string) string {
		var calls []string
		for _, id := range ids {
			calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}`)
		}
		return `{"role":"assistant","content":"","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }
	const system, user, said = `{"role":"system","content":"s"}`, `{"role":"user","content":"u"}`, `{"role":"assistant","content":"a"}`
	for _, c := range []struct {
		name, fault string
		messages    []string
	}{
		{"good", "", []string{system, user, use("a", "b"), result("a"), result("b"), user, said, user}},
		{"results at the end", "", []string{system, user, use("a"), result("a")}},
		{"starts with the assistant", "the first message", []string{system, said, user}},
		{"two users", "two user messages", []string{user, user}},
		{"two assistants", "two assistant messages", []string{user, said, said, user}},
		{"orphan", "answers no tool_use", []string{user, said, result("a")}},
		{"missing", "has no tool_result", []string{user, use("a", "b"), result("a"), user}},
		{"missing before the next", "has no tool_result", []string{user, use("a"), said, user}},
		{"late", "after text", []string{user, use("a", "b"), result("a"), user, result("b")}},
		{"system later", "lose its place", []string{user, system, said, user}},
		{"prefill", "the last message", []string{user, said}},
		{"open", "has no tool_result", []string{user, use("a")}},
	} {
		var list []Message
		if err := json.Unmarshal([]byte("["+strings.Join(c.messages, ",")+"]"), &list); err != nil {
			t.Fatal(err)
		}
		faults := strings.Join(Anthropic(list), "; ")
		if (c.fault == "") != (faults == "") || !strings.Contains(faults, c.fault) {
			t.Errorf("%s: %q, want %q", c.name, faults, c.fault)
		}
	}
}
