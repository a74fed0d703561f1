package key

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"
)

// A token is "sk-" and 44 characters of base64url: the first 12 (9 random bytes)
// say which key it is, the rest (24 random bytes) proves it.
const (
	Random     = 33 // random bytes in a token
	prefix     = "sk-"
	lookupSize = 12
	tokenSize  = len(prefix) + Random*4/3
)

// Token makes a token of random bytes.
func Token(random [Random]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// LookupOf gives the public part of a token; false if it has not the form of
// one.
func LookupOf(token string) (string, bool) {
	if len(token) != tokenSize || !strings.HasPrefix(token, prefix) {
		return "", false
	}
	rest := token[len(prefix):]
	if _, err := base64.RawURLEncoding.Strict().DecodeString(rest); err != nil {
		return "", false
	}
	return rest[:lookupSize], true
}

// Shown is how lists name a key.
func Shown(lookup string) string { return prefix + lookup + "..." }

// Hash is what is stored of a token. The token has 192 secret bits, so a fast
// hash is enough; the salt keeps equal tokens of two installations apart.
func Hash(salt, token string) string {
	sum := sha256.Sum256([]byte(salt + "\x00" + token))
	return hex.EncodeToString(sum[:])
}

// Proves tells in constant time whether a token is the one that was hashed.
func Proves(token, salt, hash string) bool {
	return subtle.ConstantTimeCompare([]byte(Hash(salt, token)), []byte(hash)) == 1
}

// UseID is the stream of a key's uses in an hour. Whoever notices the first use
// creates it, so there is one event an hour, whatever the number of requests
// and processes.
func UseID(lookup string, at time.Time) string {
	return "use/" + lookup + "/" + at.UTC().Format("2006010215")
}
