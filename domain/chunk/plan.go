package chunk

import (
	"math"
	"unicode/utf8"
)

// The tiers, best first: what the pieces of a text are cut by.
const (
	Auto      = "auto"
	Heading   = "heading"   // sections, and the blocks in them
	Structure = "structure" // blocks: paragraphs, lists, tables, code; headings are paragraphs
	Recursive = "recursive" // paragraphs, and the sentences in them
)

// Plan says which tier cuts a text, and why not another.
type Plan struct {
	Tier     string     `json:"selected_tier"`
	Chain    []string   `json:"tier_chain"` // what was looked at, in order
	Rejected []Rejected `json:"rejected"`
	Profile  Profile    `json:"profile"`
}

// Rejected is a tier that does not suit a text.
type Rejected struct {
	Tier   string `json:"tier"`
	Reason string `json:"reason"`
}

// Profile counts what a text is made of.
type Profile struct {
	Runes      int `json:"chars"`
	Wide       int `json:"cjk_chars"` // of scripts without spaces
	Paragraphs int `json:"paragraphs"`
	Headings   int `json:"headings"`
	ListItems  int `json:"list_items"`
	Tables     int `json:"tables"`
	CodeBlocks int `json:"code_blocks"`
}

// Look counts what a text is made of.
func Look(text string) Profile {
	var p Profile
	for _, r := range text {
		p.Runes++
		if isWide(r) {
			p.Wide++
		}
	}
	sc := scanner{text: text, tier: Heading}
	for b, ok := sc.next(); ok; b, ok = sc.next() {
		switch b.kind {
		case paragraph:
			p.Paragraphs++
		case heading:
			p.Headings++
		case list:
			p.ListItems++
		case table:
			p.Tables++
		case fence:
			p.CodeBlocks++
		}
	}
	return p
}

// Choose says how Split cuts a text.
func Choose(text string, o Options) Plan {
	p := Plan{Profile: Look(text), Rejected: []Rejected{}}
	chain := []string{Heading, Structure, Recursive}
	switch o.Strategy {
	case Structure:
		chain = chain[1:]
	case Recursive:
		chain = chain[2:]
	}
	for _, tier := range chain {
		p.Chain = append(p.Chain, tier)
		if tier == Heading && p.Profile.Headings == 0 {
			p.Rejected = append(p.Rejected, Rejected{tier, "the text has no headings"})
			continue
		}
		if tier == Structure && p.Profile.Tables+p.Profile.ListItems+p.Profile.CodeBlocks+p.Profile.Headings == 0 {
			p.Rejected = append(p.Rejected, Rejected{tier, "the text has no lists, tables or code"})
			continue
		}
		p.Tier = tier
		break
	}
	return p
}

// Stats sums up the text pieces, in runes.
type Stats struct {
	Count  int `json:"count"`
	Mean   int `json:"avg_chars"`
	Min    int `json:"min_chars"`
	Max    int `json:"max_chars"`
	Stddev int `json:"stddev_chars"`
}

// Measure sums up the text pieces of a result.
func Measure(pieces []Piece) Stats {
	var s Stats
	var sum, squares float64
	for _, p := range pieces {
		if p.Kind != Text {
			continue
		}
		n := utf8.RuneCountInString(p.Content)
		if s.Count == 0 || n < s.Min {
			s.Min = n
		}
		s.Max = max(s.Max, n)
		s.Count++
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if s.Count > 0 {
		mean := sum / float64(s.Count)
		s.Mean = int(math.Round(mean))
		s.Stddev = int(math.Round(math.Sqrt(max(0, squares/float64(s.Count)-mean*mean))))
	}
	return s
}
