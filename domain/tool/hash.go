package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Hash identifies a definition: the hex sha256 of its JSON. A changed schema,
// effect or description gives another hash.
func (d Definition) Hash() string {
	b, err := json.Marshal(d)
	if err != nil {
		// Only an invalid Schema can fail to encode; such a definition equals none.
		b = []byte(err.Error() + d.Name)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
