package chunk

import "strings"

// pieces measures the spans, and groups them into parents of at most parent tokens
// if that is not 0.
func (p *packer) pieces(parent int) []Piece {
	at := runes{text: p.text}
	texts := make([]Piece, len(p.spans))
	for i, s := range p.spans {
		texts[i] = p.piece(s, Text, &at)
	}
	if parent == 0 {
		return texts
	}
	out := make([]Piece, 0, len(texts)+len(texts)/2)
	for first := 0; first < len(texts); {
		last, up := p.group(texts, first, parent), -1
		if last-first > 1 {
			up = len(out)
			whole := p.spans[first]
			whole.to, whole.close = p.spans[last-1].to, p.spans[last-1].close
			for _, s := range p.spans[first:last] {
				whole.path = shared(whole.path, s.path)
			}
			out = append(out, p.piece(whole, ParentText, &at))
		}
		for _, t := range texts[first:last] {
			t.Parent = up
			out = append(out, t)
		}
		first = last
	}
	return out
}

// group is where the parent ends that begins with a text piece: when it is full,
// or at a heading when it is half full.
func (p *packer) group(texts []Piece, first, parent int) int {
	last, tokens := first+1, texts[first].Tokens
	for last < len(texts) && tokens+texts[last].Tokens <= parent {
		if tokens >= parent/2 && p.spans[last].heading {
			break
		}
		if gap := p.spans[last].from - p.spans[last-1].to; gap > 64 {
			break // blank lines without end
		}
		tokens += texts[last].Tokens
		last++
	}
	return last
}

func (p *packer) piece(s span, kind string, at *runes) Piece {
	out := Piece{Kind: kind, Parent: -1, Context: strings.Join(s.path, " > "), Content: p.contentOf(s)}
	out.Tokens = p.count(out.Content)
	out.Start = at.upTo(s.from)
	out.End = at.upTo(s.to)
	return out
}
