package preparation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// note is the record of a preparation.
type note struct {
	Environment string            `json:"environment"`
	Isolation   machine.Isolation `json:"isolation"`
	Network     bool              `json:"network"`
	At          time.Time         `json:"at"`
	Parts       map[string]string `json:"parts"`
}

// path returns the path of the note for a machine.
func path(d dirs.Dirs, s State) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%t", s.Environment, s.Isolation, s.Network))
	return filepath.Join(d.Prepared(), hex.EncodeToString(sum[:16])+".json")
}

// readNote reads the note for a machine. The note is empty if its file is missing or unreadable.
func readNote(d dirs.Dirs, s State) note {
	var n note
	b, err := os.ReadFile(path(d, s))
	if err != nil || json.Unmarshal(b, &n) != nil || n.Environment != s.Environment {
		return note{}
	}
	return n
}

// Remember records in a note that a machine is warm, with all parts that the machine depends on.
func Remember(d dirs.Dirs, s State) error {
	b, err := json.MarshalIndent(note{s.Environment, s.Isolation, s.Network, time.Now().UTC(), s.parts}, "", "  ")
	if err != nil {
		return err
	}
	file := path(d, s)
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
		err = durable.Replace(file, b)
	}
	return fault.Wrap(err, "record the preparation of", s.Environment)
}

// Prune removes unreadable notes, and the notes for images for which the function keep returns
// false.
func Prune(d dirs.Dirs, keep func(digest string) bool) error {
	entries, err := os.ReadDir(d.Prepared())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, "list the records of preparations", d.Prepared())
	}
	for _, e := range entries {
		var n note
		file := filepath.Join(d.Prepared(), e.Name())
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &n) == nil && keep(n.Parts[machine.PartEnvironment]) {
			continue
		}
		if filepath.Ext(file) != ".json" {
			continue // a temporary file: a note that is not complete yet
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(err, "remove the record of a preparation", file)
		}
	}
	return nil
}
