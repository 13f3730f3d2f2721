package environment

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Add installs an image whose content the function fill writes. In progress reports and errors,
// name describes the origin of the image. Later calls identify the image only by its digest. The
// image stays installed while Sweep keeps its digest or a reference to the image is open. The
// caller MUST Close the reference.
func (s *Store) Add(ctx context.Context, name string, report progress.Func, fill func(*mkext4.Writer) error) (*ImageRef, error) {
	ref, err := s.added.add(ctx, name, report, fill)
	return ref, fault.Wrap(err, "make environment", name)
}

func (s *Store) add(ctx context.Context, name string, report progress.Func, fill func(*mkext4.Writer) error) (*ImageRef, error) {
	env := Environment{Name: name}
	return s.installImage(ctx, &env, 0o700, report, filled(ctx, name, report, fill)) // the image contains private data of a machine
}

// filled returns a function for installImage. The function fill writes the content of the image.
func filled(ctx context.Context, name string, report progress.Func, fill func(*mkext4.Writer) error) func(*staging, string) error {
	return func(_ *staging, path string) error {
		report.Phase("writing the image", name)
		return ext4image.Fill(ctx, path, fill)
	}
}

// Sweep removes images that Add installed, except for images in keep and images in use. It also
// removes leftovers of interrupted calls.
func (s *Store) Sweep(ctx context.Context, keep Keep) error {
	s = s.added
	if !exists(s.root) {
		return nil
	}
	p := &pruner{store: s, keep: keep}
	if err := p.staging(s.root)(ctx); err != nil {
		return err
	}
	return p.content(ctx)
}
