package chunk

// The kinds of pieces, as domain/knowledge names them.
const (
	Text       = "text"        // what is searched and cited
	ParentText = "parent_text" // a larger piece that several text pieces are part of
)

// Limits of the options. What lies outside is brought inside.
const (
	DefaultSize    = 512
	DefaultOverlap = 80
	MinSize        = 32
	MaxSize        = 10_000
	MaxSeparators  = 16 // further ones are ignored
	MaxContext     = 80 // runes of one heading in a Context
)

// Options say how a text is cut. The zero value is the default. All sizes are
// tokens.
type Options struct {
	Size    int // of a text piece; 0 = DefaultSize
	Overlap int // repeated from the piece before, at most half of Size; 0 with Size 0 = DefaultOverlap

	ParentChild bool // also make parent pieces
	Parent      int  // of a parent piece; 0 = four times Child; at least Child
	Child       int  // of a text piece in place of Size; 0 = Size

	Limit      int      // if not 0, no text piece is larger, for example because of an embedding model
	Separators []string // where to cut what is too large, best first, in place of ends of sentences
	Strategy   string   // Auto ("" too), Heading, Structure or Recursive; others count as Auto
}

// Piece is a part of a text. Content is the text from Start to End, except where
// a table or fenced code had to be cut: then it begins with the table's header
// or the opening fence once more, and ends with the closing fence.
type Piece struct {
	Kind    string // Text or ParentTextText
	Parent  int    // index of the parent piece in the result, or -1
	Start   int    // runes in the text
	End     int
	Context string // the headings above it, "A > B"
	Content string // never blank
	Tokens  int    // of Content
}

// Split cuts text, which is valid UTF-8, into pieces in the order of the text;
// a parent comes before its children. Every rune that is not blank lies between
// Start and End of a text piece. count tells how many tokens a text has; nil
// means Estimate. The counts of the parts that a piece is made of add up to at
// most its size, so a piece is larger only by what joining adds with count (a few
// tokens with real tokenizers), or because a single character is.
//
// A text without anything but blanks has no pieces. A parent with one child is
// left out.
func Split(text string, o Options, count func(string) int) []Piece {
	pieces, _ := split(text, o, count)
	return pieces
}

func split(text string, o Options, count func(string) int) ([]Piece, *packer) {
	if count == nil {
		count = Estimate
	}
	o = o.effective()
	p := &packer{text: text, count: count, size: o.Size, overlap: o.Overlap, separators: o.Separators}
	sc := scanner{text: text, tier: Choose(text, o).Tier}
	for b, ok := sc.next(); ok; b, ok = sc.next() {
		p.place(b)
	}
	p.end(p.atoms, nil)
	p.work += sc.work
	if !o.ParentChild {
		return p.pieces(0), p
	}
	return p.pieces(o.Parent), p
}

func (o Options) effective() Options {
	if o.Size <= 0 {
		o.Size = DefaultSize
		if o.Overlap == 0 {
			o.Overlap = DefaultOverlap
		}
	}
	if o.ParentChild && o.Child > 0 {
		o.Size = o.Child
	}
	if o.Limit > 0 {
		o.Size = min(o.Size, o.Limit)
	}
	o.Size = min(max(o.Size, MinSize), MaxSize)
	o.Overlap = min(max(o.Overlap, 0), o.Size/2)
	if o.Parent <= 0 {
		o.Parent = 4 * o.Size
	}
	o.Parent = min(max(o.Parent, o.Size), 10*MaxSize)
	var kept []string
	for _, s := range o.Separators {
		if s != "" && len(s) <= 64 && len(kept) < MaxSeparators {
			kept = append(kept, s)
		}
	}
	o.Separators = kept
	return o
}

// Estimate is about how many tokens a text has where no tokenizer is at hand: one
// for each wide character, one for each four bytes of others.
func Estimate(s string) int {
	wide, narrow := 0, 0
	for _, r := range s {
		if isWide(r) {
			wide++
		} else {
			narrow++
		}
	}
	return wide + (narrow+3)/4
}
