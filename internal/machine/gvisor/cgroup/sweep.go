package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// staleAfter is the age after which an unlocked group counts as stale. It is longer than the time
// that pyro needs from making a group to locking it.
const staleAfter = time.Minute

// Sweep removes the groups that crashed pyro processes have left. These groups are empty, not
// locked, and at least a minute old. A running pyro locks its groups, because it reads from a group
// why the processes of that group ended. Sweep reports no errors, because the next Sweep tries
// again.
//
// The age comes from the modification time in the kernel's file system. If the kernel forgets this
// time, the group seems younger, never older.
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
	_ = p.host.kernel.rmdir(folder) // fails while the group contains processes
}
