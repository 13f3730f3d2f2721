// Package record stores saved machines. A saved machine consists of files, which have a checksum
// for each MiB ([Sums]), and a record that describes these files. The record is written last, after
// the files have been flushed. A folder without a record is an incomplete save.
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

// Name is the name of the record's file.
const Name = "saved.json"

// sealed is the stored form of a record, with a checksum.
type sealed struct {
	SHA256 string          `json:"sha256"` // digest of the form, a line feed and the record
	Form   string          `json:"form"`
	Record json.RawMessage `json:"record"`
}

func digest(form string, record []byte) string {
	sum := sha256.Sum256(append([]byte(form+"\n"), record...))
	return hex.EncodeToString(sum[:])
}

// Write writes a record and flushes the record and its folder. The parameter form names the format
// of the saved files. Change the form when the format changes.
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

// Read reads a record. The error has kind Corrupt if the record is missing or damaged. It has kind
// Precondition if the record has another form.
func Read(dir, form string, record any) error {
	b, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.Corrupt, "%s is missing: the save was not completed", Name)
	}
	if err != nil {
		return err
	}
	var s sealed
	if json.Unmarshal(b, &s) != nil || digest(s.Form, s.Record) != s.SHA256 {
		return fault.Newf(fault.Corrupt, "%s is damaged", Name)
	}
	if s.Form != form {
		return fault.Newf(fault.Precondition, "it was saved by another pyro, in the format %q", fault.Printable(s.Form))
	}
	if json.Unmarshal(s.Record, record) != nil {
		return fault.Newf(fault.Corrupt, "%s is damaged", Name)
	}
	return nil
}

// Differs returns the error for a new machine that does not match the saved one.
func Differs(what string, was, now any) error {
	return fault.Newf(fault.Precondition, "%s differs: %v when it was saved, now %v", what, was, now)
}

// Missing converts an error from opening a file. If the file does not exist, the result has kind
// Corrupt.
func Missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.Corrupt, "part of it is missing: %w", err)
	}
	return err
}
