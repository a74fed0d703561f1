package knowledge

// Slice is a piece of a text before it is a chunk of a document: the same text,
// cut the same way, gives the same slices.
type Slice struct {
	Kind    Kind   `json:"kind"`
	Parent  int    `json:"parent"` // place of the larger piece, -1 = none
	Start   int    `json:"start"`  // runes
	End     int    `json:"end"`
	Context string `json:"context,omitempty"`
	Content string `json:"content"`
	Tokens  int    `json:"tokens"`
}

// ChunksOf makes slices the chunks of the present revision, as people have edited
// them.
func (s State) ChunksOf(slices []Slice) []Chunk {
	if s.Added == nil {
		return nil
	}
	out := make([]Chunk, len(slices))
	for i, sl := range slices {
		c := Chunk{ID: ChunkID(s.Added.Document, s.Revision, i), Base: s.Added.Base, Document: s.Added.Document, Revision: s.Revision, Index: i,
			Kind: sl.Kind, Start: sl.Start, End: sl.End, Context: sl.Context, Content: sl.Content, Tokens: sl.Tokens, Digest: Digest(sl.Content)}
		if sl.Parent >= 0 && sl.Parent < len(slices) {
			c.Parent = ChunkID(s.Added.Document, s.Revision, sl.Parent)
		}
		if sl.Kind == FAQText {
			c.FAQ = s.FAQ
		}
		if e, edited := s.Edit(i); edited {
			c = c.Apply(e)
		}
		out[i] = c
	}
	return out
}

// Apply gives the chunk as a person has edited it. One that was deleted is
// disabled and empty.
func (c Chunk) Apply(e ChunkEdited) Chunk {
	if c.Content != e.Content {
		c.Content, c.Tokens, c.Digest = e.Content, e.Tokens, Digest(e.Content)
	}
	c.Edition, c.Disabled = e.Edition, e.Disabled
	return c
}
