package confirm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

const (
	usedSuffix = ".used" // added to the name of a token's file when the token is used
	tempPrefix = ".new-" // prefix of files that are not complete yet
	maxRecord  = 4 << 10
	lockWait   = 10 * time.Second
)

var recordName = lazyregexp.New(`^[0-9a-f]{32}(\.used)?$`)

// record is the content of a token's file. Except for the time, its fields are hashes with the
// token as the key. So a reader of the directory learns nothing about the commands.
type record struct {
	Token   []byte    `json:"token"`
	Command []byte    `json:"command"`
	Owner   []byte    `json:"owner"`
	Scope   []byte    `json:"scope,omitempty"` // empty if the token is valid for all scopes
	Expires time.Time `json:"expires"`
	name    string
}

func recordOf(token string, r Request, expires time.Time) record {
	k := record{
		Token:   sum(token, "token", token),
		Command: sum(token, "command", strings.TrimSpace(r.Command)),
		Owner:   sum(token, "owner", r.Owner),
		Expires: expires,
		name:    fileName(token),
	}
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

// fileName returns the name of a token's file: half of a hash of the token. It does not reveal the
// token.
func fileName(token string) string {
	h := sha256.Sum256([]byte("name\x00" + token))
	return hex.EncodeToString(h[:16])
}

// check returns an error if the record does not allow the request. It ignores earlier uses.
func (k record) check(token string, r Request) error {
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

// readRecord reads the file of a token. If the file is damaged, the result is an empty record,
// which allows no request.
func readRecord(path string) (k record, err error) {
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

// save removes expired records and writes the new record k.
func (t Tokens) save(k record) error {
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
		return fault.New(fault.Exhausted, "save a confirmation", "", "there are already %d", n).
			WithHint("use them, or wait until they expire")
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return durable.Replacement{Temp: tempPrefix + "*"}.WriteFunc(filepath.Join(t.Dir, k.name), func(f *os.File) error {
		if _, err := f.Write(b); err != nil {
			return err
		}
		// The time of the file is the expiry time. So sweep does not have to read the file.
		return os.Chtimes(f.Name(), time.Time{}, k.Expires)
	})
}

// sweep removes expired records and the temporary files of killed processes. It returns the number
// of records that remain. The caller must hold the lock of the directory.
func (t Tokens) sweep() (n int, err error) {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process has just renamed the file
		}
		switch ours := recordName().MatchString(e.Name()); {
		case strings.HasPrefix(e.Name(), tempPrefix), ours && time.Now().After(info.ModTime()):
			os.Remove(filepath.Join(t.Dir, e.Name()))
		case ours:
			n++
		}
	}
	return n, nil
}
