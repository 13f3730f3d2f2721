package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// staleAfter is how long a group is left alone that nobody holds: longer than it takes from its making to its lock.
const staleAfter = time.Minute

// Sweep removes the groups that a pyro left behind that was killed: those of ours that are empty, older than a minute and locked by nobody. A group
// is locked as long as the pyro lives that made it, so that one whose processes have just ended can still be asked what they died of. Failures are
// not told: what is left is tried again by the next Sweep.
//
// How old a group is, is what the kernel's file system remembers, and where it has forgotten, it begins anew: groups seem younger than they are,
// never older.
func (p *Parent) Sweep() {
	var swept []string
	for _, c := range controllers {
		parent := p.folders[c]
		if parent == "" || slices.Contains(swept, parent) {
			continue
		}
		swept = append(swept, parent)
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) && e.IsDir() {
				p.sweep(filepath.Join(parent, e.Name()))
			}
		}
	}
}

func (p *Parent) sweep(folder string) {
	info, err := os.Lstat(folder)
	if err != nil || time.Since(info.ModTime()) < p.stale {
		return
	}
	lock, err := flock.TryFolder(folder, flock.Exclusive)
	if err != nil {
		return
	}
	defer lock.Release()
	_ = p.host.kernel.rmdir(folder) // fails where processes are in it
}
