package confirm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

const (
	used      = ".used" // ends the name of a token's file when it was used
	unnamed   = ".new-" // begins that of a file that is being written
	maxRecord = 4 << 10
	lockWait  = 10 * time.Second
)

var recordName = regexp.MustCompile(`^[0-9a-f]{32}(\.used)?$`)

// record is what is kept of a token. All but the time are hashes with the token as their key, so who reads the folder learns nothing of commands.
type record struct {
	Token   []byte    `json:"token"`
	Command []byte    `json:"command"`
	Owner   []byte    `json:"owner"`
	Scope   []byte    `json:"scope,omitempty"` // none: any
	Expires time.Time `json:"expires"`
	name    string
}

func recordOf(token string, r Request, expires time.Time) record {
	k := record{Token: sum(token, "token", token), Command: sum(token, "command", strings.TrimSpace(r.Command)), Owner: sum(token, "owner", r.Owner), Expires: expires, name: fileName(token)}
	if r.Scope != "" {
		k.Scope = sum(token, "scope", r.Scope)
	}
	return k
}

func sum(token, field, value string) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(field + "\x00" + value))
	return h.Sum(nil)
}

// fileName is half of a hash of the token: enough to find it, of no use to make it.
func fileName(token string) string {
	h := sha256.Sum256([]byte("name\x00" + token))
	return hex.EncodeToString(h[:16])
}

// holds tells whether a token is good for a request, but for whether it was used.
func (k record) holds(token string, r Request) error {
	want := recordOf(token, r, k.Expires)
	switch {
	case subtle.ConstantTimeCompare(k.Token, want.Token) != 1, !time.Now().Before(k.Expires):
		return ErrInvalid
	case subtle.ConstantTimeCompare(k.Command, want.Command) != 1:
		return ErrCommand
	case subtle.ConstantTimeCompare(k.Owner, want.Owner) != 1:
		return ErrOwner
	case len(k.Scope) > 0 && subtle.ConstantTimeCompare(k.Scope, want.Scope) != 1:
		return ErrScope
	}
	return nil
}

// read1 reads a token's file. One that is not whole is no token.
func read1(path string) (k record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return k, err
	}
	if json.Unmarshal(b, &k) != nil {
		return record{}, nil
	}
	return k, nil
}

// keep writes a record, after those whose time is over are removed.
func (t Tokens) keep(k record) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := flock.TakeFolder(ctx, t.Dir, flock.Exclusive)
	if err != nil {
		return err
	}
	defer lock.Release()
	n, err := t.sweep()
	if err != nil {
		return err
	}
	if n >= MaxTokens {
		return fault.New(fault.Exhausted, "keep a confirmation", "", "%d confirmations are kept already", n).WithHint("use them, or wait until their time is over")
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(t.Dir, unnamed)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close(), os.Chtimes(f.Name(), time.Time{}, k.Expires)); err != nil { // sweep goes by the time, and reads no file
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(t.Dir, k.name)); err != nil {
		return err
	}
	return durable.Sync(t.Dir)
}

// sweep removes what has expired, used or not, and what writers that were killed left. It counts the rest. Its caller holds the lock.
func (t Tokens) sweep() (n int, err error) {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // used at this moment
		}
		switch ours := recordName.MatchString(e.Name()); {
		case strings.HasPrefix(e.Name(), unnamed), ours && time.Now().After(info.ModTime()):
			os.Remove(filepath.Join(t.Dir, e.Name()))
		case ours:
			n++
		}
	}
	return n, nil
}
