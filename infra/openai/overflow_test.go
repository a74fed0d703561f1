package openai

import "testing"

// The words are those that servers have been seen to use.
func TestTokensNamed(t *testing.T) {
	for text, want := range map[string][2]int{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 10240 tokens. Please reduce the length of the messages.": {8192, 10240},
		"This model's maximum context length is 16385 tokens. However, you requested 17000 tokens (16000 in the messages, 1000 in the completion).":      {16385, 17000},
		"This model's maximum context length is 32,768 tokens and your request has 40,000 input tokens":                                                  {32768, 0},
		"prompt is too long: 208310 tokens > 200000 maximum":                                                                                             {200000, 208310},
		"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).":                                                        {1048576, 1100000},
		"the request exceeds the available context size. try increasing the context size or enable context shift":                                        {0, 0},
		"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it":                                                      {4096, 5000},
		`{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}`:                                                            {4096, 5000},
		"prompt token count of 130000 exceeds the limit of 128000":                                                                                       {128000, 130000},
		"Range of input length should be [1, 30720]":                                                                                                     {30720, 0},
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.":                                                           {131072, 537812},
		"Input is too long for requested model.":                                                                                                         {0, 0},
		"maximum context length is 99999999999999999999 tokens":                                                                                          {0, 0},
	} {
		if limit, requested := tokensNamed(text); limit != want[0] || requested != want[1] {
			t.Errorf("%s\n%d, %d; want %v", text, limit, requested, want)
		}
	}
}

func TestOverflows_AllWordings(t *testing.T) {
	for _, text := range []string{
		"prompt tokens exceed", "the prompt is longer than the context window", "input length and max_tokens exceed context limit: 190000 + 20000 > 200000",
		"please reduce the length of the input messages", "request too large: token limit exceeded", "string_above_max_length", "exceeds the maximum input length",
		"total tokens exceed max model length", "your request exceeded model token limit: 8192", "prompt length exceeds the limit",
		"input tokens exceed the configured limit of 128000 tokens",
	} {
		if !overflows(text) {
			t.Errorf("not recognised: %s", text)
		}
	}
	for _, text := range []string{"max_tokens must be at least 1", "rate limit reached for tokens per minute", "invalid token", "too many requests"} {
		if overflows(text) {
			t.Errorf("taken for an overflow: %s", text)
		}
	}
}
