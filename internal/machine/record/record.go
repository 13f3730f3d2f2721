// Package record keeps what running machines were saved as: files, each MiB of which has a checksum ([Sums]), and the record that describes them, which is written
// when they are whole and flushed. So a folder without one is of a machine that was not saved to its end.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Name is that of the file which describes the others of a saved machine.
const Name = "saved.json"

// sealed is how a record is stored.
type sealed struct {
	SHA256 string          `json:"sha256"` // of the form, a line feed and the record
	Form   string          `json:"form"`
	Record json.RawMessage `json:"record"`
}

func digest(form string, record []byte) string {
	sum := sha256.Sum256(append([]byte(form+"\n"), record...))
	return hex.EncodeToString(sum[:])
}

// Write writes a record and flushes it and its folder. form is changed when what is written is.
func Write(dir, form string, record any) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if b, err = json.Marshal(sealed{digest(form, b), form, b}); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return durable.Sync(dir)
}

// Read reads a record: with kind Corrupt where it is not what was written, with Precondition where it has another form.
func Read(dir, form string, record any) error {
	b, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.Corrupt, "%s is missing: it was not saved to its end", Name)
	}
	if err != nil {
		return err
	}
	var s sealed
	if json.Unmarshal(b, &s) != nil || digest(s.Form, s.Record) != s.SHA256 {
		return fault.Newf(fault.Corrupt, "%s is damaged", Name)
	}
	if s.Form != form {
		return fault.Newf(fault.Precondition, "it was saved by another pyro, in the form %q", fault.Printable(s.Form))
	}
	if json.Unmarshal(s.Record, record) != nil {
		return fault.Newf(fault.Corrupt, "%s is damaged", Name)
	}
	return nil
}

// Differs says that a machine that is to go on is not as it was saved.
func Differs(what string, was, now any) error {
	return fault.Newf(fault.Precondition, "it was saved with %s %v, and this is %v", what, was, now)
}

// Missing says of an error of opening a file of a saved machine that it is Corrupt where the file is not there.
func Missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.Corrupt, "part of it is missing: %w", err)
	}
	return err
}
