package environment

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Add installs an image that fill writes, of which name says what it came from. No name stands for it: it is known by its digest, and stays while that is one of those
// that Sweep is asked to keep, or the lease is open. The caller MUST Close the lease.
func (s *Store) Add(ctx context.Context, name string, report progress.Func, fill func(*mkext4.Writer) error) (*Lease, error) {
	lease, err := s.added.add(ctx, name, report, fill)
	return lease, fault.Wrap(err, "make environment", name)
}

func (s *Store) add(ctx context.Context, name string, report progress.Func, fill func(*mkext4.Writer) error) (*Lease, error) {
	work, err := newStaging(s.root)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	dir := work.path("content")
	if err := os.Mkdir(dir, 0o700); err != nil { // what was in a machine is nobody else's to read
		return nil, err
	}
	report.Phase("writing the image", name)
	if err := ext4image.Fill(ctx, filepath.Join(dir, imageFile), fill); err != nil {
		return nil, err
	}
	env := Environment{Name: name}
	lock, err := s.place(ctx, dir, &env, report)
	if err != nil {
		return nil, err
	}
	return &Lease{env, filepath.Join(s.contentDir(env.Digest), imageFile), lock}, nil
}

// Sweep removes images that were added, but those to keep and those that are used, and what was left of others.
func (s *Store) Sweep(ctx context.Context, keep map[string]bool) error {
	s = s.added
	if !exists(s.root) {
		return nil
	}
	p := &pruning{store: s, keep: keep}
	if err := p.staging(s.root)(ctx); err != nil {
		return err
	}
	return p.content(ctx)
}
