package run

import (
	"strings"
	"time"
	"unicode"
)

// Constants of the loop. They are the defaults of design and tests; a run
// carries its own limits in RunStarted.
const (
	DefaultMaxRounds       = 20
	HardMaxRounds          = 100
	DefaultModelTimeout    = 120 * time.Second
	DefaultApprovalTimeout = 600 * time.Second
	MaxRetries             = 2                // of a failed model call: at most 3 attempts
	MaxRetryAfter          = 60 * time.Second // longest wait that a provider can ask for
	MaxLost                = 10               // attempts that may die with their process
	MaxNudges              = 2                // after empty or unusable replies, in the whole run
	MaxCalls               = 64               // tool calls of one reply that are looked at
	MaxArguments           = 1 << 20          // bytes of one call's arguments
	HistoryTurns           = 5                // earlier turns that the model sees
	MaxHistoryTurns        = 100
	ClaimGrace             = 10 * time.Second // between a worker's own timeout and the end of its claim
	MaxAttempts            = 3                // of a repeatable tool whose attempts are lost
	MaxQuery               = 100_000          // runes of a question
	DefaultContextTokens   = 200_000          // of a request and its reply
	NoWindow               = 1 << 30          // a window of that much is no limit at all
	MaxMemoryTries         = 3                // attempts at one summary
	MemoryTimeout          = 60 * time.Second // of one attempt
)

// retryWait is the pause before attempt n+1, n >= 1 failed attempts.
func retryWait(failures int, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, MaxRetryAfter)
	}
	return time.Duration(failures) * time.Second
}

// FixedText is text that the engine itself says, in the language of the run.
type FixedText int

const (
	TextEmptyFallback FixedText = iota
	TextFiltered
	TextMaxRounds
	TextStuck
	NudgeEmpty
	NudgeMarkup
	NudgeUnfinished
	NudgeLoop
	TextNothingFound
)

var fixedTexts = map[FixedText][2]string{ // English, Chinese
	TextEmptyFallback: {
		"The model returned no answer, also after being asked again. Please rephrase the question or try another model.",
		"模型没有给出回答，再次询问后仍然如此。请换一种问法，或换一个模型再试。"},
	TextFiltered: {
		"The provider's content filter withheld the answer. Please rephrase the question.",
		"服务商的内容过滤拦截了这次回答。请换一种问法再试。"},
	TextMaxRounds: {
		"The limit of rounds was reached before an answer was complete, and no summary could be made. What was found is in the steps above; ask again with a narrower question.",
		"在得出完整回答之前已达到轮数上限，也未能生成总结。已查到的内容见上面的步骤；请缩小问题范围后再问。"},
	TextStuck: {
		"The agent kept repeating the same steps and was ended. What was found is in the steps above; please rephrase the question.",
		"智能体一直在重复同样的步骤，已被结束。已查到的内容见上面的步骤；请换一种问法再试。"},
	NudgeEmpty: {
		"Your last reply was empty. Write the complete answer now, as plain text.",
		"上一条回复是空的。请现在用纯文本写出完整的回答。"},
	NudgeMarkup: {
		"Your last reply wrote a tool call as text, so nothing was run. Use the function-calling interface for tools, or write the complete answer as plain text.",
		"上一条回复把工具调用写成了文本，因此没有执行任何操作。请通过函数调用接口使用工具，或用纯文本写出完整的回答。"},
	NudgeUnfinished: {
		"Your last reply ended without being finished. If it was the answer, write it again, complete, as plain text; else go on.",
		"上一条回复没有正常结束。如果那就是回答，请用纯文本完整地再写一次；否则请继续。"},
	TextNothingFound: {
		"Nothing about this was found in the knowledge that this question may use. Please ask in other words, or choose other sources.",
		"在本次提问可用的资料中没有找到相关内容。请换一种问法，或选择其他资料。"},
	NudgeLoop: {
		"You have made the same calls with the same results several times. Do not repeat them: use what you know, try another way, or write the answer.",
		"你已多次用相同的参数得到相同的结果。请不要再重复：利用已知内容，换一种办法，或直接写出回答。"},
}

func (s State) text(t FixedText) string {
	if s.Start != nil && s.Start.Language == "zh" {
		return fixedTexts[t][1]
	}
	return fixedTexts[t][0]
}

// LanguageOf guesses the language of fixed texts from a question: "zh" if it
// holds Han characters, else "en".
func LanguageOf(query string) string {
	if strings.ContainsFunc(query, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
		return "zh"
	}
	return "en"
}

// naturalStop tells whether a normalised finish reason ends an answer.
func naturalStop(finish string) bool {
	switch strings.ToLower(strings.TrimSpace(finish)) {
	case "stop", "end_turn", "stop_sequence", "":
		return true
	}
	return false
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func (l Limits) maxRounds() int {
	if l.MaxRounds <= 0 {
		return DefaultMaxRounds
	}
	return min(l.MaxRounds, HardMaxRounds)
}

// ModelDeadline is how long one model call may take.
func (l Limits) ModelDeadline() time.Duration {
	if l.ModelTimeout <= 0 {
		return DefaultModelTimeout
	}
	return l.ModelTimeout
}

func (l Limits) approvalTimeout() time.Duration {
	if l.ApprovalTimeout <= 0 {
		return DefaultApprovalTimeout
	}
	return l.ApprovalTimeout
}
