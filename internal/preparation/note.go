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

// note is what is kept of a preparation.
type note struct {
	Environment string            `json:"environment"`
	Isolation   machine.Isolation `json:"isolation"`
	Network     bool              `json:"network"`
	At          time.Time         `json:"at"`
	Parts       map[string]string `json:"parts"`
}

// path is where the note of what was found is kept.
func path(d dirs.Dirs, s State) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%t", s.Environment, s.Isolation, s.Network))
	return filepath.Join(d.Prepared(), hex.EncodeToString(sum[:16])+".json")
}

// recall gives the note of a preparation, an empty one where there is none that can be read.
func recall(d dirs.Dirs, s State) note {
	var n note
	b, err := os.ReadFile(path(d, s))
	if err != nil || json.Unmarshal(b, &n) != nil || n.Environment != s.Environment {
		return note{}
	}
	return n
}

// Remember notes what was found: that it is warm, and from what it was made.
func Remember(d dirs.Dirs, s State) error {
	b, err := json.MarshalIndent(note{s.Environment, s.Isolation, s.Network, time.Now().UTC(), s.parts}, "", "  ")
	if err != nil {
		return err
	}
	file := path(d, s)
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
		err = durable.Replace(file, b)
	}
	return fault.Wrap(err, "note what was prepared", s.Environment)
}

// Prune removes the notes of what was prepared from images that are not kept any more.
func Prune(d dirs.Dirs, keep func(digest string) bool) error {
	entries, err := os.ReadDir(d.Prepared())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, "list what was prepared", d.Prepared())
	}
	for _, e := range entries {
		var n note
		file := filepath.Join(d.Prepared(), e.Name())
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &n) == nil && keep(n.Parts[machine.PartEnvironment]) {
			continue
		}
		if filepath.Ext(file) != ".json" {
			continue // it is being written
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(err, "remove note of what was prepared", file)
		}
	}
	return nil
}
