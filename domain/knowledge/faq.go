package knowledge

import (
	"slices"
	"strings"

	"refold/domain"
)

// Limits of an FAQ entry, in runes, and how many there may be.
const (
	MaxQuestion  = 1000
	MaxQuestions = 200 // similar ones, and negative ones
	MaxAnswers   = 50
	MaxAnswer    = 20_000
	MaxEntry     = 1 << 20 // bytes of all texts
)

// Strategies of answering with several answers.
const (
	AnswerAll    = "all" // the default
	AnswerRandom = "random"
)

var errNoEntry = domain.Reject(domain.Invalid, "bad_entry", "an FAQ entry needs a standard question and at least one answer")

// plain checks an entry and tidies its texts; what stands twice is left out.
func (f FAQ) plain() (FAQ, error) {
	f.Question = line(f.Question)
	if f.Question == "" {
		return f, errNoEntry
	}
	f.Similar = distinct(f.Similar, line, f.Question)
	f.Negative = distinct(f.Negative, line, f.Question)
	f.Answers = distinct(f.Answers, text, "")
	if len(f.Answers) == 0 {
		return f, errNoEntry
	}
	if f.Strategy == "" {
		f.Strategy = AnswerAll
	}
	if f.Strategy != AnswerAll && f.Strategy != AnswerRandom {
		return f, invalid("bad_entry", `answer_strategy must be "all" or "random"`)
	}
	if len(f.Similar) > MaxQuestions || len(f.Negative) > MaxQuestions || len(f.Answers) > MaxAnswers {
		return f, invalid("bad_entry", "an FAQ entry has at most %d similar and %d negative questions and %d answers", MaxQuestions, MaxQuestions, MaxAnswers)
	}
	total := 0
	for _, q := range append(append([]string{f.Question}, f.Similar...), f.Negative...) {
		if total += len(q); runes(q) > MaxQuestion {
			return f, invalid("bad_entry", "a question has at most %d characters", MaxQuestion)
		}
	}
	for _, a := range f.Answers {
		if total += len(a); runes(a) > MaxAnswer {
			return f, invalid("bad_entry", "an answer has at most %d characters", MaxAnswer)
		}
	}
	if total > MaxEntry {
		return f, invalid("bad_entry", "the texts of an FAQ entry have at most %d bytes together", MaxEntry)
	}
	if f.ID <= 0 || f.ID >= 1<<53 {
		return f, invalid("bad_entry", "the number of an FAQ entry has 1 to 53 bits")
	}
	return f, nil
}

// Check refuses an entry that can't be taken.
func (f FAQ) Check() error {
	if f.ID == 0 {
		f.ID = 1
	}
	_, err := f.plain()
	return err
}

// distinct tidies texts and leaves out blank ones, repeated ones, and but.
func distinct(in []string, tidy func(string) string, but string) []string {
	var out []string
	seen := map[string]bool{SameQuestion(but): but != ""}
	for _, t := range in {
		t = tidy(t)
		if key := SameQuestion(t); t != "" && !seen[key] {
			seen[key] = true
			out = append(out, t)
		}
	}
	return out
}

// SameQuestion is a question as it is compared with others.
func SameQuestion(q string) string {
	return strings.ToLower(strings.TrimRight(line(q), "?？!！.。 "))
}

// Merge adds what another entry with the same question has.
func (f FAQ) Merge(o FAQ) FAQ {
	f.Similar = append(slices.Clone(f.Similar), o.Similar...)
	f.Negative = append(slices.Clone(f.Negative), o.Negative...)
	f.Answers = append(slices.Clone(f.Answers), o.Answers...)
	f.Recommended = f.Recommended || o.Recommended
	return f
}

// Units are what searches find of an entry. The first is the entry itself: its
// questions, and in the mode QuestionAnswer its answers. Where questions are
// separate it has the standard question only, and each other one is a unit that
// follows.
func (f FAQ) Units(r Recipe) []string {
	first, rest := []string{f.Question}, f.Similar
	if !r.Separate {
		first, rest = append(first, f.Similar...), nil
	}
	if r.FAQ != QuestionOnly {
		first = append(first, f.Answers...)
	}
	return append([]string{strings.Join(first, "\n")}, rest...)
}

// Asked are the questions that an entry answers, as they are compared with those
// of others (SameQuestion), each once.
func (f FAQ) Asked() []string {
	return distinct(append([]string{f.Question}, f.Similar...), SameQuestion, "")
}

func (f FAQ) content(r Recipe) Blob {
	t := strings.Join(f.Units(r), "\n")
	return Blob{Digest: Digest(t), Size: int64(len(t))}
}
