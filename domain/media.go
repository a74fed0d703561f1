package domain

// Media names content in the blob store that came with a message. Name is empty
// for images. Size is in bytes.
type Media struct {
	ID     string `json:"id,omitempty"` // of an attachment
	Name   string `json:"name,omitempty"`
	Type   string `json:"type"`   // MIME type, as sniffed here
	Digest string `json:"digest"` // "sha256:" and 64 hex digits
	Size   int64  `json:"size"`
}
