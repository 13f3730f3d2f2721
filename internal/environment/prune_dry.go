package environment

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// Kept is one item that Prune does not remove.
type Kept struct {
	Kind      string `json:"kind"` // as in Removed
	Name      string `json:"name,omitempty"`
	Digest    string `json:"digest,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	Reason    string `json:"reason"`
}

// Reasons to keep something.
const (
	keptForWorkspace = "a workspace uses it"
	keptForMachine   = "a machine uses it"
	keptInstalled    = "it is installed, and --all is not set"
	keptPulling      = "it is being installed"
	keptCurrent      = "new machines use it"
	keptYoung        = "it was used within the last hour"
)

func (p *pruner) kept(k Kept) { p.done.Kept = append(p.done.Kept, k) }

// try locks the file at a path, which can then be removed. In a dry run it only checks whether
// another process holds the lock.
func (p *pruner) try(path string) (*flock.Lock, error) {
	if !p.dry {
		return flock.Try(path, flock.Exclusive)
	}
	held, err := flock.InUse(path)
	if held {
		return nil, flock.ErrHeld
	}
	if errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(path)) {
		return nil, nil
	}
	return nil, err
}

// lockContent calls [Store.lockContent]. In a dry run it takes no lock and returns nil.
func (p *pruner) lockContent(ctx context.Context) (*flock.Lock, error) {
	if p.dry {
		return nil, nil
	}
	return p.store.lockContent(ctx)
}

// discard removes a content directory. A dry run only remembers the digest.
func (p *pruner) discard(dir string) error {
	if p.dry {
		p.gone["sha256:"+filepath.Base(dir)] = true
		return nil
	}
	return p.store.discard(dir)
}

// named reports whether an environment has the image with a digest, or needs it as its base. It
// ignores the environments that a dry run would remove.
func (p *pruner) named(digest string) (bool, error) {
	records, err := p.store.records()
	has := func(e Environment) bool { return e.Digest == digest && !p.gone[e.Name] }
	return slices.ContainsFunc(records, has) || p.store.isBase(digest, p.gone), err
}

// abandoned returns the size of the abandoned staging directories, in bytes. It removes nothing.
func abandoned(parent string) (size int64, err error) {
	folders, err := filepath.Glob(filepath.Join(parent, stagingPrefix+"*"))
	if err != nil {
		return 0, err
	}
	for _, dir := range folders {
		held, err := flock.Held(filepath.Join(dir, "lock"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return size, err
		}
		if !held {
			size += allocated(dir)
		}
	}
	return size, nil
}
