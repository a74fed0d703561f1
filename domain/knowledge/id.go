package knowledge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// DerivedID is an id in the form of a UUID that follows from its parts: the same
// for the same parts, and unlike every other.
func DerivedID(parts ...string) string {
	sum := derive(parts...)
	sum[6] = sum[6]&0x0f | 0x80 // version 8: made by the application
	sum[8] = sum[8]&0x3f | 0x80
	b := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", b[:8], b[8:12], b[12:16], b[16:20], b[20:])
}

// ChunkID is the id of a chunk.
func ChunkID(document string, revision, index int) string {
	return DerivedID("chunk", document, strconv.Itoa(revision), strconv.Itoa(index))
}

// NumberOf is a number of 53 bits, not 0, that follows from an id. JSON numbers
// hold it exactly.
func NumberOf(id string) int64 {
	sum := derive("number", id)
	return max(1, int64(binary.BigEndian.Uint64(sum[:8])>>11))
}

// FileID is the id of the nth document of a base that holds these bytes under
// this name. Only one of them is not deleted: who adds a document takes the first
// id that is free, and the log decides between several.
func FileID(base, digest, name string, n int) string {
	return DerivedID("file", base, digest, line(name), strconv.Itoa(n))
}

// URLID is to addresses what FileID is to files. See PlainURL.
func URLID(base, url string, n int) string {
	return DerivedID("url", base, url, strconv.Itoa(n))
}

// EntryID is the id of the document that is the FAQ entry with a number.
func EntryID(base string, number int64) string {
	return DerivedID("faq", base, strconv.FormatInt(number, 10))
}

func derive(parts ...string) [32]byte {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%d:%s", len(p), p)
	}
	return sha256.Sum256([]byte(b.String()))
}
