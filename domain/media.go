package domain

// Media names content in the blob store that came with a message: an image, or
// the text of a file. ID, Name, Runes and Excerpt are of files only.
type Media struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Type    string `json:"type"`   // MIME type, as found here
	Digest  string `json:"digest"` // "sha256:" and 64 hex digits
	Size    int64  `json:"size"`   // bytes
	Runes   int    `json:"runes,omitempty"`
	Excerpt string `json:"excerpt,omitempty"` // the whole text if it is short, else its beginning
}

// Ref names the content in one line, for a model request that is not sent yet.
func (m Media) Ref() string { return m.Type + ";" + m.Digest }
