package run

import (
	"fmt"
	"strconv"
	"strings"
)

// Segment kinds: what a reader of the feed is shown while a model call is open.
const (
	SegAnswer  = "a" // text that may become the answer
	SegThought = "t" // reasoning
	SegClose   = "c" // the thinking block ends; MS since the call began
	SegCall    = "p" // a tool call is coming: ID and Name
	SegTool    = "k" // a thought written into the arguments of the thinking tool
)

// Segment is one piece of a streamed reply, in the order in which it arrived.
type Segment struct {
	Kind string `json:"k"`
	Text string `json:"t,omitempty"`
	MS   int64  `json:"ms,omitempty"`
	ID   string `json:"id,omitempty"`
	Name string `json:"n,omitempty"`
}

// Shown says in which pieces the text of a model call was shown, so that the
// very same frames can be made again from the fact alone, for ever. Cuts lists
// kind and length in bytes, for example "t12 c340 a5 a6 p"; the bytes are in
// the fact's text and reasoning, and in Aside for SegTool.
type Shown struct {
	Cuts    string        `json:"cuts,omitempty"`
	Pending []PendingCall `json:"pending,omitempty"` // one for each p
	Aside   string        `json:"aside,omitempty"`
}

// PendingCall is a call that was announced before its arguments were known.
type PendingCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Compact folds segments into text, reasoning and the way they were cut.
func Compact(segments []Segment) (text, reasoning string, shown Shown) {
	var a, t, k, cuts strings.Builder
	for i, s := range segments {
		if i > 0 {
			cuts.WriteByte(' ')
		}
		cuts.WriteString(s.Kind)
		switch s.Kind {
		case SegAnswer:
			a.WriteString(s.Text)
			cuts.WriteString(strconv.Itoa(len(s.Text)))
		case SegThought:
			t.WriteString(s.Text)
			cuts.WriteString(strconv.Itoa(len(s.Text)))
		case SegTool:
			k.WriteString(s.Text)
			cuts.WriteString(strconv.Itoa(len(s.Text)))
		case SegClose:
			cuts.WriteString(strconv.FormatInt(s.MS, 10))
		case SegCall:
			shown.Pending = append(shown.Pending, PendingCall{s.ID, s.Name})
		}
	}
	shown.Cuts, shown.Aside = cuts.String(), k.String()
	return a.String(), t.String(), shown
}

// Kept is the part of a reply's text that still counts when the call is cut off:
// what was written before a call was announced is its round's preamble. A call
// whose pieces are unknown keeps all of its text.
func (sh Shown) Kept(text string) string {
	at, from := 0, 0
	for cut := range strings.SplitSeq(sh.Cuts, " ") {
		if strings.HasPrefix(cut, SegCall) {
			from = at
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(cut, SegAnswer)); err == nil && strings.HasPrefix(cut, SegAnswer) {
			at += n
		}
	}
	if from > len(text) || from < 0 {
		return text
	}
	return text[from:]
}

// Expand is the inverse of Compact. Cuts that do not fit the text are an error;
// they can only come from a damaged event.
func (sh Shown) Expand(text, reasoning string) ([]Segment, error) {
	if sh.Cuts == "" {
		return nil, nil
	}
	pending, aside := sh.Pending, sh.Aside
	take := func(from *string, n int) (string, bool) {
		if n < 0 || n > len(*from) {
			return "", false
		}
		s := (*from)[:n]
		*from = (*from)[n:]
		return s, true
	}
	var out []Segment
	for _, cut := range strings.Split(sh.Cuts, " ") {
		if cut == "" {
			return nil, fmt.Errorf("empty cut in %q", sh.Cuts)
		}
		s := Segment{Kind: cut[:1]}
		n, err := strconv.ParseInt(cut[1:], 10, 64)
		ok := err == nil
		switch s.Kind {
		case SegAnswer:
			if ok {
				s.Text, ok = take(&text, int(n))
			}
		case SegThought:
			if ok {
				s.Text, ok = take(&reasoning, int(n))
			}
		case SegTool:
			if ok {
				s.Text, ok = take(&aside, int(n))
			}
		case SegClose:
			s.MS = n
		case SegCall:
			if ok = len(pending) > 0 && len(cut) == 1; ok {
				s.ID, s.Name = pending[0].ID, pending[0].Name
				pending = pending[1:]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("cut %q does not fit the text", cut)
		}
		out = append(out, s)
	}
	return out, nil
}
