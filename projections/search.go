package projections

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// Turn is a question with its answer as the search of messages knows it. The
// texts are as SearchText makes them; what is shown comes from the history.
type Turn struct {
	Run      string    `json:"run"`
	Message  string    `json:"message"` // of the question
	Session  string    `json:"session"`
	Question string    `json:"question,omitempty"`
	Answer   string    `json:"answer,omitempty"`
	At       time.Time `json:"at"`
}

// Search finds turns by words. Index: session, at (unix microseconds), asked and
// answered (whether that half is there), text (both halves).
//
// A search walks the turns of a tenant from the newest and looks for the words
// in text, which the store keeps beside the order, so that a walk reads no
// documents; it ends as soon as it has enough. The worst case, a word that
// stands nowhere, reads the text of all: 0.4 s for 100,000 messages on one core,
// 2 ms for a common word (BenchmarkSearch100k). How much of one turn is searched
// is bounded by maxAsked and maxAnswered.
var Search = Projection{Name: "search", Version: 2, Filter: event.Filter{Categories: facts}, Fold: foldSearch}

// How much of a turn can be found, in runes.
const (
	maxAsked    = 4_000
	maxAnswered = 16_000
)

func foldSearch(v *View, f Fact) {
	tenant := f.Stream.Tenant
	change := func(id string, fn func(*Turn)) {
		if t := Get[Turn](v, "", tenant, id); t != nil {
			fn(t)
			putTurn(v, tenant, t)
		}
	}
	answer := func(text string) {
		change(f.Stream.ID, func(t *Turn) { t.Answer = SearchText(text, maxAnswered) })
	}
	switch e := f.Event.(type) {
	case session.MessagePosted:
		putTurn(v, tenant, &Turn{Run: e.Run, Message: e.Message, Session: f.Stream.ID, Question: SearchText(e.Query, maxAsked), At: e.At})
		addItem(v, turnsCollection, tenant, f.Stream.ID, e.Run)
	case session.RunDiscarded:
		Remove(v, "", tenant, e.Run)
	case session.MessagesCleared, session.SessionDeleted:
		for _, id := range takeItems(v, turnsCollection, tenant, f.Stream.ID) {
			Remove(v, "", tenant, id)
		}
	case session.MessageDeleted:
		change(e.Run, func(t *Turn) {
			if e.Message == e.Run {
				t.Answer = ""
			} else {
				t.Question = ""
			}
		})
	case run.MessageSteered:
		change(f.Stream.ID, func(t *Turn) { t.Question = cut(t.Question+SearchText(e.Text, maxAsked), maxAsked) })
	case run.RunCompleted:
		answer(e.Answer)
	case run.RunFailed:
		answer(e.Text)
	case run.RunStopped:
		answer(e.Shown.Kept(e.Text))
	}
}

func putTurn(v *View, tenant string, t *Turn) {
	if t.Question == "" && t.Answer == "" {
		Remove(v, "", tenant, t.Run)
		return
	}
	Put(v, "", tenant, t.Run, t, map[string]any{"session": t.Session, "at": t.At.UnixMicro(), "asked": t.Question != "",
		"answered": t.Answer != "", "text": t.Question + "\n" + t.Answer})
}

// SearchText is text as it is searched: lower case, one space around every word
// and every run of Chinese or Japanese, everything else left out; at most n
// runes of the text count. "" if there is nothing to find.
func SearchText(text string, n int) string {
	var b strings.Builder
	const (
		gap = iota
		word
		han
	)
	last := gap
	for _, r := range cut(text, n) {
		kind := gap
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			kind = han
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			kind = word
		}
		if kind != last && kind != gap {
			b.WriteByte(' ')
		}
		if kind != gap {
			b.WriteRune(unicode.ToLower(r))
		}
		last = kind
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + " "
}

// cut gives the first n runes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// Needles are what must stand in a turn's text for a query: words from their
// beginning ("back" finds "backups", not "feedback"), Chinese as it is. With
// pieces, runs of more than two Chinese characters may stand in pieces of two.
func Needles(query string, pieces bool) []string {
	var out []string
	seen := map[string]bool{}
	add := func(n string) {
		if !seen[n] && len(out) < maxNeedles {
			seen[n] = true
			out = append(out, n)
		}
	}
	for _, term := range strings.Fields(SearchText(query, maxAsked)) {
		first, _ := utf8.DecodeRuneInString(term)
		if !unicode.In(first, unicode.Han, unicode.Hiragana, unicode.Katakana) {
			add(" " + term)
			continue
		}
		runes := []rune(term)
		if !pieces || len(runes) <= 2 {
			add(term)
			continue
		}
		for i := 0; i < len(runes); i += 2 {
			i = min(i, len(runes)-2)
			add(string(runes[i : i+2]))
		}
	}
	return out
}

// maxNeedles bounds what is looked for at once.
const maxNeedles = 12

// Score says how well a turn fits, from 0 to 1: whole words more than
// beginnings, the question more than the answer, more places more than one.
func (t Turn) Score(needles []string) float64 {
	if len(needles) == 0 {
		return 0
	}
	total := 0.0
	for _, n := range needles {
		best := 0.0
		for i, half := range []string{t.Question, t.Answer} {
			weight, places := 1-0.2*float64(i), strings.Count(half, n)
			if places == 0 {
				continue
			}
			whole := 1.0
			if n[0] == ' ' && !strings.Contains(half, n+" ") {
				whole = 0.6
			}
			best = max(best, weight*whole*(0.7+0.3*float64(min(places, 5))/5))
		}
		total += best
	}
	return total / float64(len(needles))
}
