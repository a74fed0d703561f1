package scripted

import "fmt"

// Anthropic gives the breaches of the rules of Anthropic's Messages API that the
// messages of a request would make after the usual translation: system messages
// go to the top, tool messages become tool_result blocks of a user message, and a
// user message right after them joins it. Then: the first message is the user's,
// roles take turns, each tool_use has its tool_result in the very next message,
// before any text of it, and no result is without a use.
func Anthropic(messages []Message) []string {
	var faults []string
	fault := func(i int, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("messages[%d]: ", i)+fmt.Sprintf(format, args...))
	}
	role := "" // of the translated message before
	uses := map[string]bool{}
	results, text := false, false // what the open user message holds
	for i, m := range messages {
		switch m.Role {
		case "system":
			if role != "" {
				fault(i, "a system message in the middle would lose its place")
			}
		case "tool":
			switch {
			case role == "user" && !results, role == "user" && text:
				fault(i, "a tool_result after text of the user")
			case !uses[m.ToolCallID]:
				fault(i, "tool_result %q answers no tool_use of the message before", m.ToolCallID)
			}
			delete(uses, m.ToolCallID)
			role, results = "user", true
		case "user":
			if role == "user" && (!results || text) {
				fault(i, "two user messages in a row")
			}
			for id := range uses {
				fault(i, "tool_use %q has no tool_result in the next message", id)
			}
			clear(uses)
			role, text = "user", true
		case "assistant":
			switch role {
			case "":
				fault(i, "the first message is the assistant's")
			case "assistant":
				fault(i, "two assistant messages in a row")
			}
			for id := range uses {
				fault(i, "tool_use %q has no tool_result in the next message", id)
			}
			clear(uses)
			for _, c := range m.ToolCalls {
				uses[c.ID] = true
			}
			role, results, text = "assistant", false, false
		default:
			fault(i, "unknown role %q", m.Role)
		}
	}
	for id := range uses {
		fault(len(messages)-1, "tool_use %q has no tool_result", id)
	}
	if role == "assistant" {
		fault(len(messages)-1, "the last message is the assistant's")
	}
	return faults
}
