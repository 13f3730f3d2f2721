package control

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Parameters of new password hashes, as RFC 9106 recommends them for hosts with little memory.
const (
	hashTime    = 3
	hashMemory  = 64 << 10 // KiB, if Options.HashMemory is 0
	hashThreads = 4
	hashSize    = 32 // bytes
	saltSize    = 16
)

// Bounds of passwords, in bytes.
const (
	MinPassword = 8
	MaxPassword = 1024
)

// hashing bounds how many hashes are computed at the same time, because each takes 64 MiB.
var hashing = make(chan struct{}, 2)

// hashPassword returns the argon2id hash of a password in PHC form. Invalid: it is too short or too
// long.
func (c *Control) hashPassword(password secret.Value) (secret.Value, error) {
	text := password.Reveal()
	if len(text) < MinPassword || len(text) > MaxPassword {
		return secret.Value{}, fault.Newf(fault.Invalid, "a password has %d to %d bytes", MinPassword, MaxPassword)
	}
	var salt [saltSize]byte
	rand.Read(salt[:])
	hashing <- struct{}{}
	defer func() { <-hashing }()
	sum := argon2.IDKey([]byte(text), salt[:], hashTime, c.hashMemory, hashThreads, hashSize)
	encode := base64.RawStdEncoding.EncodeToString
	return secret.New(fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.hashMemory, hashTime, hashThreads, encode(salt[:]), encode(sum))), nil
}

// checkPassword reports whether a password matches a hash. An empty hash takes equally long, so
// that the time does not reveal which users exist.
func (c *Control) checkPassword(password, hash secret.Value) bool {
	text := password.Reveal()
	if len(text) > MaxPassword {
		return false
	}
	version, memory, time, threads, salt, sum, ok := parseHash(hash.Reveal())
	if !ok {
		version, memory, time, threads, salt, sum = argon2.Version, c.hashMemory, hashTime, hashThreads, make([]byte, saltSize), make([]byte, hashSize)
	}
	hashing <- struct{}{}
	defer func() { <-hashing }()
	got := argon2.IDKey([]byte(text), salt, time, memory, threads, uint32(len(sum)))
	return subtle.ConstantTimeCompare(got, sum) == 1 && ok && version == argon2.Version
}

// parseHash splits a hash in PHC form. It accepts parameters up to twice the current ones.
func parseHash(hash string) (version int, memory, time uint32, threads uint8, salt, sum []byte, ok bool) {
	var text string
	if _, err := fmt.Sscanf(hash, "$argon2id$v=%d$m=%d,t=%d,p=%d$%s", &version, &memory, &time, &threads, &text); err != nil {
		return version, memory, time, threads, nil, nil, false
	}
	saltText, sumText, _ := strings.Cut(text, "$")
	salt, err := base64.RawStdEncoding.DecodeString(saltText)
	sum, failed := base64.RawStdEncoding.DecodeString(sumText)
	ok = err == nil && failed == nil && memory <= 2*hashMemory && time >= 1 && time <= 2*hashTime && threads >= 1 && len(salt) > 0 && len(sum) >= 16 && len(sum) <= 64
	return version, memory, time, threads, salt, sum, ok
}
