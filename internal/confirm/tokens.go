// Package confirm keeps confirmations of dangerous commands in a folder, each for one use.
package confirm

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// DefaultTTL is how long a confirmation holds.
const DefaultTTL = 300 * time.Second

// MaxTokens bounds the confirmations that are kept in one folder.
const MaxTokens = 1024

// maxRequest bounds the fields of a request, in bytes.
const maxRequest = 1 << 20

// Tokens are confirmations of dangerous commands, kept in a folder that many processes may use at once. A token is used once, until its time is over, for the
// command, owner and scope that it was given for. The folder has hashes only: of tokens, and of what they are for.
type Tokens struct {
	Dir string        // made where it is missing, for its owner alone
	TTL time.Duration // DefaultTTL where it is 0
}

// Request is what is to be confirmed, or is confirmed.
type Request struct {
	Command       string // compared without blanks at its beginning and end
	Owner         string
	Scope         string // a token that is issued without one is good for any
	Justification string // why; needed to issue a token, and not kept
}

// The errors of Redeem, beside those of the file system.
var (
	ErrRequired = redeemError(fault.Permission, "confirmation token required")
	ErrInvalid  = redeemError(fault.Permission, "confirmation token invalid or expired")
	ErrUsed     = redeemError(fault.Permission, "confirmation token already used")
	ErrCommand  = redeemError(fault.Permission, "confirmation token command mismatch")
	ErrOwner    = redeemError(fault.Permission, "confirmation token owner mismatch")
	ErrScope    = redeemError(fault.Permission, "confirmation token scope mismatch")
)

func redeemError(kind fault.Kind, text string) *fault.Error {
	return fault.Newf(kind, "%s", text).WithHint("call confirm_dangerous_command with this command, owner and scope, and give its confirm_token once")
}

var tokenForm = regexp.MustCompile(`^dc_[0-9a-f]{32}$`)

// Issue makes a token for a request, which must say why.
func (t Tokens) Issue(r Request) (token string, expires time.Time, err error) {
	const op = "confirm a dangerous command"
	switch {
	case strings.TrimSpace(r.Command) == "":
		return "", time.Time{}, fault.New(fault.Invalid, op, "", "command is required")
	case strings.TrimSpace(r.Justification) == "":
		return "", time.Time{}, fault.New(fault.Invalid, op, "", "justification required")
	case len(r.Command)+len(r.Owner)+len(r.Scope) > maxRequest:
		return "", time.Time{}, fault.New(fault.Invalid, op, "", "command, owner and scope are longer than %d KiB", maxRequest>>10)
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
	if err := t.keep(recordOf(token, r, expires)); err != nil {
		return "", time.Time{}, fault.Wrap(err, op, "")
	}
	return token, expires, nil
}

// Redeem uses a token for a request, whose justification does not count. Of many that try at once, in whatever processes, one succeeds. A request that the token was not
// given for does not use it up.
func (t Tokens) Redeem(token string, r Request) error {
	token = strings.TrimSpace(token)
	if token == "" {
		return ErrRequired
	}
	if !tokenForm.MatchString(token) {
		return ErrInvalid
	}
	path := filepath.Join(t.Dir, fileName(token))
	kept, err := read1(path)
	if os.IsNotExist(err) {
		return t.gone(token, r)
	}
	if err != nil {
		return fault.Wrap(err, "redeem a confirmation", "")
	}
	if err := kept.holds(token, r); err != nil {
		return err
	}
	switch err := os.Rename(path, path+used); { // which only one can do
	case os.IsNotExist(err):
		return t.gone(token, r)
	case err != nil:
		return fault.Wrap(err, "redeem a confirmation", "")
	}
	return fault.Wrap(durable.Sync(t.Dir), "redeem a confirmation", "") // what was used stays so when the host loses power
}

// gone says why a token is not there: it was used, or it never was, or it is swept.
func (t Tokens) gone(token string, r Request) error {
	kept, err := read1(filepath.Join(t.Dir, fileName(token)+used))
	if err != nil || kept.holds(token, r) == ErrInvalid {
		return ErrInvalid
	}
	return ErrUsed
}
