package store

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Prefixes of ids.
const (
	SandboxPrefix  = "cl-"
	UserPrefix     = "usr-"
	TeamPrefix     = "team-"
	KeyPrefix      = "key-"
	HostPrefix     = "host-"
	AuditPrefix    = "log-"
	TemplatePrefix = "tmpl-"
)

// idDigits is the number of digits of an id in base 36, enough for 128 bits.
const idDigits = 25

// NewID returns a random id with a prefix.
func NewID(prefix string) string {
	var b [16]byte
	rand.Read(b[:])
	return prefix + base36(b)
}

// newOrderedID returns a random id. Ids of later milliseconds are greater, as in UUIDv7.
func newOrderedID(prefix string, at time.Time) string {
	var b [16]byte
	rand.Read(b[6:])
	for i, ms := 5, at.UnixMilli(); i >= 0; i-- {
		b[i] = byte(ms)
		ms >>= 8
	}
	return prefix + base36(b)
}

// UUID returns the 128 bits of an id as a UUID, as hosts expect it. The result is empty if the text
// is not a valid id.
func UUID(id string) string {
	_, digits, _ := strings.Cut(id, "-")
	n, ok := new(big.Int).SetString(digits, 36)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return ""
	}
	return fmt.Sprintf("%032x", n)
}

func base36(b [16]byte) string {
	digits := new(big.Int).SetBytes(b[:]).Text(36)
	for len(digits) < idDigits {
		digits = "0" + digits
	}
	return digits
}

// micros converts a time to the database's format: microseconds since 1970, and 0 for a zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the inverse of micros.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
