package environment

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Lease holds an environment's image: while it is open, in this process or another, prune does not remove it.
type Lease struct {
	Environment
	Image string // path of the raw ext4 image, which nobody may write to

	lock *flock.Lock
}

// Close gives the image back. Idempotent.
func (l *Lease) Close() error {
	l.lock.Release()
	return nil
}

// Pull installs an environment, or checks the installed one. With force it is made again, and the name then stands for the new content; machines on the
// old one go on. Where another process is pulling the same name, it waits and shares the result.
func (s *Store) Pull(ctx context.Context, name string, force bool, report progress.Func) (Environment, error) {
	lease, err := s.obtain(ctx, name, force, report)
	if err != nil {
		return Environment{}, explain(err, name)
	}
	return lease.Environment, lease.Close()
}

// Use gives an environment to start a machine on, and pulls it where it is missing. An image that has been damaged is found out, removed and pulled
// again, which report is told. The caller MUST Close the lease.
func (s *Store) Use(ctx context.Context, name string, report progress.Func) (*Lease, error) {
	lease, err := s.obtain(ctx, name, false, report)
	if err != nil {
		return nil, explain(err, name)
	}
	return lease, nil
}

// UseDigest gives an image by its content, which was known as name once and which Prune was asked to keep. It is never pulled: Corrupt and NotFound say that it
// is damaged or gone. The caller MUST Close the lease.
func (s *Store) UseDigest(ctx context.Context, digest, name string, report progress.Func) (*Lease, error) {
	if !isDigest(digest) {
		return nil, fault.New(fault.Corrupt, "use environment", name, "%q is no digest", digest)
	}
	env := Environment{Name: name, Digest: digest, Installed: true}
	lease, err := s.leaseContent(ctx, env, report)
	if errors.Is(err, fs.ErrNotExist) {
		lease, err = s.added.leaseContent(ctx, env, report)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "use environment", name, "the image that it was is gone (%s)", digest)
	}
	return lease, fault.Wrap(err, "use environment", name)
}

// Find gives an environment that is installed, as Use does, and pulls nothing. If Use would pull it, the error is [ErrNotInstalled], or its kind is Corrupt. The caller MUST Close the lease.
func (s *Store) Find(ctx context.Context, name string, report progress.Func) (*Lease, error) {
	env, err := resolve(name)
	if err != nil {
		return nil, err
	}
	lease, err := s.lease(ctx, env.Name, report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "find environment", name, "%w", ErrNotInstalled).WithHint("pyro env pull %s", name)
	}
	return lease, err
}

func explain(err error, name string) error {
	if f, ok := err.(*fault.Error); ok && f.Subject == name {
		return err
	}
	wrapped := &fault.Error{Op: "pull environment", Subject: name, Err: err}
	if fault.KindOf(err) == fault.Exhausted && fault.HintOf(err) == "" {
		wrapped.Hint = "pyro env prune"
	}
	return wrapped
}

func (s *Store) obtain(ctx context.Context, name string, force bool, report progress.Func) (*Lease, error) {
	began := time.Now()
	env, err := resolve(name)
	if err != nil {
		return nil, err
	}
	if !force {
		if lease, err := s.lease(ctx, env.Name, report); err == nil || !mustPull(err) {
			return lease, err
		}
	}
	waited := func() { report.Phase("waiting for another pyro that is pulling", env.Name) }
	lock, err := waitFor(ctx, filepath.Join(s.root, "locks"), fileName(env.Name), waited)
	if err != nil {
		return nil, err
	}
	defer lock.Release()

	record, err := s.record(env.Name)
	if err == nil && (!force || record.InstalledAt.After(began)) {
		lease, err := s.lease(ctx, env.Name, report)
		if err == nil || !mustPull(err) {
			return lease, err
		}
		if fault.KindOf(err) == fault.Corrupt {
			report.Phase("pulling again: "+err.(*fault.Error).Err.Error(), env.Name)
			if err := s.discardDamaged(ctx, record.Digest, env.Name, report); err != nil {
				return nil, err
			}
		}
	}
	return s.pull(ctx, env, report)
}

func mustPull(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || fault.KindOf(err) == fault.Corrupt
}

// lease opens what is installed: fs.ErrNotExist where nothing is, a fault of kind Corrupt where it is damaged.
func (s *Store) lease(ctx context.Context, name string, report progress.Func) (*Lease, error) {
	record, err := s.record(name)
	if err != nil {
		return nil, err
	}
	return s.leaseContent(ctx, record, report)
}

func (s *Store) leaseContent(ctx context.Context, record Environment, report progress.Func) (*Lease, error) {
	dir := s.contentDir(record.Digest)
	lock, err := flock.Take(ctx, filepath.Join(dir, lockFile), flock.Shared, nil)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx, record.Digest, record.Name, report); err != nil {
		lock.Release()
		return nil, err
	}
	return &Lease{record, filepath.Join(dir, imageFile), lock}, nil
}

// discardDamaged removes an image, unless another process has replaced it by a whole one meanwhile.
func (s *Store) discardDamaged(ctx context.Context, digest, name string, report progress.Func) error {
	content, err := s.lockContent(ctx)
	if err != nil {
		return err
	}
	defer content.Release()
	if err := s.verify(ctx, digest, name, report); fault.KindOf(err) != fault.Corrupt {
		return err
	}
	return s.discard(s.contentDir(digest))
}

// pull makes an environment and installs it. The caller holds the lock of its name.
func (s *Store) pull(ctx context.Context, env Environment, report progress.Func) (*Lease, error) {
	work, err := newStaging(s.root)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	dir := work.path("content")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if env.Source == SourceDebian {
		err = s.build(ctx, env, work, filepath.Join(dir, imageFile), report)
	} else {
		err = s.fetch(ctx, &env, work, filepath.Join(dir, imageFile), report)
	}
	if err != nil {
		return nil, err
	}
	lock, err := s.place(ctx, dir, &env, report)
	if err != nil {
		return nil, err
	}
	if err := s.writeRecord(env); err != nil {
		lock.Release()
		return nil, err
	}
	return &Lease{env, filepath.Join(s.contentDir(env.Digest), imageFile), lock}, nil
}

// place installs the image that is in a folder, and says of the environment what it is. The lock is the one to hold while the image is used.
func (s *Store) place(ctx context.Context, dir string, env *Environment, report progress.Func) (*flock.Lock, error) {
	digest, sealed, err := seal(ctx, dir, env.Name, report)
	if err != nil {
		return nil, err
	}
	env.SizeBytes = allocated(filepath.Join(dir, imageFile))
	lock, err := s.install(ctx, dir, digest, env.Name, sealed, report)
	if lock != sealed {
		sealed.Release()
	}
	env.Digest, env.Installed, env.InstalledAt, env.VirtualSize = digest, true, time.Now().UTC(), virtualSize
	return lock, err
}

// debianSpace is what building takes at most: the unpacked packages, their downloads and the image.
var debianSpace = map[string]int64{"debian:12": 1 << 30, "debian:12-base": 600 << 20, "debian:12-build": 2500 << 20}

func (s *Store) build(ctx context.Context, env Environment, work *staging, path string, report progress.Func) error {
	if err := checkSpace(work.dir, debianSpace[env.Name]); err != nil {
		return err
	}
	dir := work.path("build")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Files that the build itself made are dated to its day, so that two builds of a day from the same packages are the same.
	limits := ext4image.Limits{Newest: time.Now().UTC().Truncate(24 * time.Hour)}
	return imageFrom(ctx, path, limits, func(ctx context.Context, out io.Writer) error {
		return s.bootstrap(ctx, env.Packages, dir, out, report, env.Name)
	})
}

func (s *Store) fetch(ctx context.Context, env *Environment, work *staging, path string, report progress.Func) error {
	dir := work.path("layers")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	ref, err := oci.Parse(env.Reference)
	if err != nil {
		return err
	}
	space := func(need int64) error { return checkSpace(dir, need) }
	img, err := oci.Fetch(ctx, ref, dir, space, report)
	if err != nil {
		return err
	}
	env.ManifestDigest, env.Env, env.User, env.WorkDir = img.ManifestDigest, img.Env, img.User, img.WorkDir
	env.Description = img.Description
	report.Phase("unpacking layers", env.Name)
	return imageFrom(ctx, path, ext4image.Limits{Bytes: oci.MaxBytes, Entries: oci.MaxEntries}, img.WriteTar)
}

// imageFrom makes an image of the archive that write writes. Where either end fails the other is ended too, and the error is that of the end that failed
// of itself.
func imageFrom(ctx context.Context, path string, limits ext4image.Limits, write func(context.Context, io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(ctx, writer)
		writer.CloseWithError(err)
		written <- err
	}()
	err := ext4image.Build(ctx, reader, path, limits)
	if err == nil {
		// What follows the end of an archive is of no interest, but its writer must come to its end.
		_, err = io.Copy(io.Discard, reader)
	}
	if err != nil {
		cancel()
	}
	reader.CloseWithError(errImageFailed)
	if writeErr := <-written; err == nil || writeErr != nil && !errors.Is(writeErr, errImageFailed) && !errors.Is(writeErr, context.Canceled) {
		return writeErr
	}
	return err
}

var errImageFailed = errors.New("the image could not be made")
