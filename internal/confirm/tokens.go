// Package confirm stores confirmations of dangerous commands. Each confirmation allows one use.
package confirm

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// DefaultTTL is the default lifetime of a confirmation.
const DefaultTTL = 300 * time.Second

// MaxTokens is the maximum number of confirmations in one directory.
const MaxTokens = 1024

// maxRequest is the maximum total size of the command, owner and scope of a request, in bytes.
const maxRequest = 1 << 20

// Tokens stores confirmations of dangerous commands in a directory. Several processes can use the
// directory at the same time. Each token allows its command, owner and scope once, until the token
// expires. The directory contains no tokens or requests, only their hashes.
type Tokens struct {
	Dir string        // created with mode 0700 if it does not exist
	TTL time.Duration // DefaultTTL if it is 0
}

// Request describes a command to confirm, or to run with a token.
type Request struct {
	Command       string // compared without leading and trailing blanks
	Owner         string
	Scope         string // if empty, the token is valid for all scopes
	Justification string // the reason; Issue requires it and does not store it
}

// The errors of Redeem, other than file system errors.
var (
	ErrRequired = redeemError(fault.Permission, "confirmation token required")
	ErrInvalid  = redeemError(fault.Permission, "confirmation token invalid or expired")
	ErrUsed     = redeemError(fault.Permission, "confirmation token already used")
	ErrCommand  = redeemError(fault.Permission, "confirmation token command mismatch")
	ErrOwner    = redeemError(fault.Permission, "confirmation token owner mismatch")
	ErrScope    = redeemError(fault.Permission, "confirmation token scope mismatch")
)

func redeemError(kind fault.Kind, text string) *fault.Error {
	return fault.Newf(kind, "%s", text).WithHint("call confirm_dangerous_command with this " +
		"command, owner and scope, and pass its confirm_token once")
}

var tokenForm = lazyregexp.New(`^dc_[0-9a-f]{32}$`)

// Issue creates a token for a request. The request must have a justification.
func (t Tokens) Issue(r Request) (token string, expires time.Time, err error) {
	const op = "confirm a dangerous command"
	switch {
	case strings.TrimSpace(r.Command) == "":
		return "", time.Time{}, fault.New(fault.Invalid, op, "", "command is required")
	case strings.TrimSpace(r.Justification) == "":
		return "", time.Time{}, fault.New(fault.Invalid, op, "", "justification required")
	case len(r.Command)+len(r.Owner)+len(r.Scope) > maxRequest:
		return "", time.Time{}, fault.New(fault.Invalid, op, "",
			"command, owner and scope are longer than %d KiB", maxRequest>>10)
	}
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return "", time.Time{}, fault.Wrap(err, op, "")
	}
	random := make([]byte, 16)
	rand.Read(random)
	token = "dc_" + hex.EncodeToString(random)
	ttl := t.TTL
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	expires = time.Now().Add(ttl).Truncate(time.Microsecond)
	if err := t.save(recordOf(token, r, expires)); err != nil {
		return "", time.Time{}, fault.Wrap(err, op, "")
	}
	return token, expires, nil
}

// Redeem uses a token for a request. It ignores the justification. If several processes redeem a
// token at the same time, only one succeeds. A request that does not match the token does not use
// it up.
func (t Tokens) Redeem(token string, r Request) error {
	token = strings.TrimSpace(token)
	if token == "" {
		return ErrRequired
	}
	if !tokenForm().MatchString(token) {
		return ErrInvalid
	}
	path := filepath.Join(t.Dir, fileName(token))
	saved, err := readRecord(path)
	if os.IsNotExist(err) {
		return t.missing(token, r)
	}
	if err != nil {
		return fault.Wrap(err, "redeem a confirmation", "")
	}
	if err := saved.check(token, r); err != nil {
		return err
	}
	switch err := os.Rename(path, path+usedSuffix); { // only one process can rename the file
	case os.IsNotExist(err):
		return t.missing(token, r)
	case err != nil:
		return fault.Wrap(err, "redeem a confirmation", "")
	}
	// A power failure must not make the token usable again.
	return fault.Wrap(durable.Sync(t.Dir), "redeem a confirmation", "")
}

// missing returns ErrUsed if the token was used. It returns ErrInvalid if the token never existed
// or has expired.
func (t Tokens) missing(token string, r Request) error {
	saved, err := readRecord(filepath.Join(t.Dir, fileName(token)+usedSuffix))
	if err != nil || saved.check(token, r) == ErrInvalid {
		return ErrInvalid
	}
	return ErrUsed
}
