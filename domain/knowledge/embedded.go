package knowledge

import (
	"crypto/sha256"
	"encoding/hex"
)

// EmbeddedText is what of a chunk is turned into a vector: the headings above
// it, and its content.
func (c Chunk) EmbeddedText() string {
	if c.Context == "" {
		return c.Content
	}
	return c.Context + "\n" + c.Content
}

// EmbeddedDigest names the vector of a chunk among those of one model: equal
// texts have one vector.
func (c Chunk) EmbeddedDigest() string { return Digest(c.EmbeddedText()) }

// Digest is "sha256:" and 64 hex digits of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}
