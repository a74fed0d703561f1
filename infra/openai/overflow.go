package openai

import (
	"regexp"
	"strconv"
	"strings"
)

// A number of tokens as servers write it, "8192", "8,192" or "8_192".
const number = `(\d{1,3}(?:[,_]\d{3})+|\d+)`

// How servers name the window and the request. Texts are in lower case; the
// first that fits counts.
var (
	windowWords = []*regexp.Regexp{
		regexp.MustCompile(`(?:maximum|max)(?: allowed)?(?: model)? context (?:length|window|size)(?: is| of| \(| =|:)* ?` + number),
		regexp.MustCompile(`tokens? > ` + number + ` maximum`),
		regexp.MustCompile(`maximum number of tokens allowed \(?` + number),
		regexp.MustCompile(`context (?:length|window|size) (?:is |of |limit of |limit is |= ?|\()*(?:only )?(?:up to )?(?:at most )?` + number),
		regexp.MustCompile(`maximum prompt length(?: is| of)? ` + number),
		regexp.MustCompile(`range of input length should be \[\d+, ?` + number),
		regexp.MustCompile(`model_max_prompt_tokens_exceeded.*limit of ` + number),
		regexp.MustCompile(`exceeds the limit of ` + number),
		regexp.MustCompile(`limit(?: is| of|:)? ` + number + ` tokens`),
		regexp.MustCompile(`"n_ctx": ?` + number),
	}
	requestWords = []*regexp.Regexp{
		regexp.MustCompile(`messages? resulted in ` + number + ` tokens`),
		regexp.MustCompile(`prompt (?:contains|has)(?: at least)? ` + number + ` (?:input )?tokens`),
		regexp.MustCompile(`requested (?:about )?` + number + ` tokens`),
		regexp.MustCompile(`too long: ` + number + ` tokens >`),
		regexp.MustCompile(`input token count \(?` + number),
		regexp.MustCompile(`prompt token count of ` + number),
		regexp.MustCompile(`request contains ` + number + ` tokens`),
		regexp.MustCompile(`request \(` + number + ` tokens\)`),
		regexp.MustCompile(`"n_prompt_tokens": ?` + number),
	}
)

// tokensNamed reads the tokens that a refusal names: of the window, and of the
// request; 0 if it names none.
func tokensNamed(text string) (limit, requested int) {
	text = strings.ToLower(text)
	find := func(words []*regexp.Regexp) int {
		for _, w := range words {
			if m := w.FindStringSubmatch(text); m != nil {
				n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(m[1]))
				if err == nil && n > 0 && n < 1<<31 {
					return n
				}
			}
		}
		return 0
	}
	return find(windowWords), find(requestWords)
}

// tokens are the numbers of a refusal as too long.
func (e serverError) tokens(code string) (limit, requested int) {
	if code != "context_overflow" {
		return 0, 0
	}
	return tokensNamed(e.message)
}
