package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const maxCallID = 64

// NormalizeCallID gives a call an id that every provider takes back: 1 to 64
// characters of A-Z a-z 0-9 _ -. A blank id becomes "call_" and 12 hex digits
// of the tool's name, the round and the index in the round. Equal input, equal
// id. The caller makes it unique in the run with UniqueCallID.
func NormalizeCallID(raw, name string, round, index int) string {
	id := strings.TrimFunc(raw, unseen)
	if id == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s_%d_%d", name, round, index))
		return "call_" + hex.EncodeToString(sum[:6])
	}
	whole := id
	id = strings.Map(func(c rune) rune {
		if c < 128 && (alnum(byte(c)) || c == '_' || c == '-') {
			return c
		}
		return '_'
	}, id)
	if len(id) > maxCallID {
		sum := sha256.Sum256([]byte(whole))
		id = id[:maxCallID-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return id
}

// UniqueCallID gives id, or id with the first free suffix _2, _3, ... when it is
// taken; at most 64 bytes.
func UniqueCallID(id string, taken func(string) bool) string {
	unique := id
	for n := 2; taken(unique); n++ {
		suffix := "_" + strconv.Itoa(n)
		unique = id[:min(len(id), maxCallID-len(suffix))] + suffix
	}
	return unique
}
