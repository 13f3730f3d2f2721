package environment

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// ImageRef is a reference to the image of an environment. Prune keeps an image while a reference to
// it is open.
type ImageRef struct {
	Environment
	Image string // path of the raw ext4 image, which is read-only

	lock *flock.Lock
}

// Close releases the reference. It is idempotent.
func (l *ImageRef) Close() error {
	l.lock.Release()
	return nil
}

// Pull installs an environment. If the environment is already installed, Pull only verifies it.
// With force, Pull installs the environment again under the same name, which does not affect
// machines that use the old image. If another process is pulling the same name, Pull waits for that
// process and shares its result.
func (s *Store) Pull(ctx context.Context, name string, force bool, report progress.Func) (Environment, error) {
	ref, err := s.obtain(ctx, name, force, report)
	if err != nil {
		return Environment{}, explain(err, name)
	}
	return ref.Environment, ref.Close()
}

// Use returns a reference to an environment for starting a machine. If the environment is not
// installed, Use pulls it. If the image is damaged, Use replaces it and reports that. The caller
// MUST Close the reference.
func (s *Store) Use(ctx context.Context, name string, report progress.Func) (*ImageRef, error) {
	ref, err := s.obtain(ctx, name, false, report)
	if err != nil {
		return nil, explain(err, name)
	}
	return used(ref), nil
}

// UseFor is like Use, but for a name that a client chose. It connects only to addresses that reach
// allows, and only with the rights of everyone: it ignores the credentials of `docker login` and
// the proxy.
func (s *Store) UseFor(ctx context.Context, name string, reach oci.Reach, report progress.Func) (*ImageRef, error) {
	limited := *s
	limited.reach = reach
	return limited.Use(ctx, name, report)
}

// UseDigest returns a reference to an image by its digest. In reports and errors, name is the name
// that the image once had. The image can only exist if earlier calls of Prune and Sweep kept its
// digest, because UseDigest never pulls. If the image is damaged, the error has kind Corrupt. If
// the image is missing, the error has kind NotFound. The caller MUST Close the reference.
func (s *Store) UseDigest(ctx context.Context, digest, name string, report progress.Func) (*ImageRef, error) {
	if !isDigest(digest) {
		return nil, fault.New(fault.Corrupt, "use environment", name, "%q is not a digest", digest)
	}
	env := Environment{Name: name, Digest: digest, Installed: true}
	ref, err := s.openContent(ctx, env, report)
	if errors.Is(err, fs.ErrNotExist) {
		ref, err = s.added.openContent(ctx, env, report)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "use environment", name, "its image no longer exists (%s)", digest)
	}
	if err != nil {
		return nil, fault.Wrap(err, "use environment", name)
	}
	return used(ref), nil
}

// Find is like Use, but pulls nothing. If Use would pull, the error is [ErrNotInstalled] or has
// kind Corrupt. The caller MUST Close the reference.
func (s *Store) Find(ctx context.Context, name string, report progress.Func) (*ImageRef, error) {
	env, err := resolve(name)
	if err != nil {
		return nil, err
	}
	ref, err := s.open(ctx, env.Name, report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "find environment", name, "%w", ErrNotInstalled).WithHint("pyro env pull %s", name)
	}
	return ref, err
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

func (s *Store) obtain(ctx context.Context, name string, force bool, report progress.Func) (*ImageRef, error) {
	began := time.Now()
	env, err := resolve(name)
	if err != nil {
		return nil, err
	}
	if made, err := s.storedRecord(s.recordPath(env.Name)); err == nil && made.Recipe != nil {
		if force {
			return nil, fault.New(fault.Precondition, "pull environment", name, "it was made on this host, so there is nothing to pull").WithHint("build it again")
		}
		return s.reopen(ctx, made, report)
	}
	if !force {
		if ref, err := s.open(ctx, env.Name, report); err == nil || !mustPull(err) {
			return ref, err
		}
	}
	waited := func() { report.Phase("waiting for another pyro to pull", env.Name) }
	lock, err := takeLock(ctx, filepath.Join(s.root, "locks"), fileName(env.Name), waited)
	if err != nil {
		return nil, err
	}
	defer lock.Release()

	record, err := s.record(env.Name)
	if err == nil && (!force || record.InstalledAt.After(began)) {
		ref, err := s.open(ctx, env.Name, report)
		if err == nil || !mustPull(err) {
			return ref, err
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

// open opens an installed environment. If it is not installed, the error is fs.ErrNotExist. If it
// is damaged, the error is a fault of kind Corrupt.
func (s *Store) open(ctx context.Context, name string, report progress.Func) (*ImageRef, error) {
	record, err := s.record(name)
	if err != nil {
		return nil, err
	}
	return s.openContent(ctx, record, report)
}

func (s *Store) openContent(ctx context.Context, record Environment, report progress.Func) (*ImageRef, error) {
	dir := s.contentDir(record.Digest)
	lock, err := flock.Take(ctx, filepath.Join(dir, lockFile), flock.Shared, nil)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx, record.Digest, record.Name, report); err != nil {
		lock.Release()
		return nil, err
	}
	return &ImageRef{record, filepath.Join(dir, imageFile), lock}, nil
}

// discardDamaged removes a damaged image, unless another process has already replaced the image.
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

// pull builds or fetches an environment, and installs it. The caller must hold the lock for its
// name.
func (s *Store) pull(ctx context.Context, env Environment, report progress.Func) (*ImageRef, error) {
	var config *v1.Config
	ref, err := s.installImage(ctx, &env, 0o755, report, func(work *staging, path string) (err error) {
		if env.Source == SourceDebian {
			return s.build(ctx, env, work, path, report)
		}
		config, err = s.fetch(ctx, &env, work, path, report)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.writeStored(stored{Environment: env, Config: config}); err != nil {
		ref.Close()
		return nil, err
	}
	return ref, nil
}

// installImage installs an image that the function write writes to a path. The function can use the
// staging directory for other files. The image's directory has the given mode. installImage fills
// in the fields of env that describe the image.
func (s *Store) installImage(ctx context.Context, env *Environment, mode fs.FileMode, report progress.Func, write func(work *staging, path string) error) (*ImageRef, error) {
	work, err := newStaging(s.root)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	dir := work.path("content")
	if err := os.Mkdir(dir, mode); err != nil {
		return nil, err
	}
	if err := write(work, filepath.Join(dir, imageFile)); err != nil {
		return nil, err
	}
	lock, err := s.sealAndInstall(ctx, dir, env, report)
	if err != nil {
		return nil, err
	}
	return &ImageRef{*env, filepath.Join(s.contentDir(env.Digest), imageFile), lock}, nil
}

// sealAndInstall seals and installs the image in a directory. It also fills in the fields of env
// that describe the image. The caller must hold the returned lock while it uses the image.
func (s *Store) sealAndInstall(ctx context.Context, dir string, env *Environment, report progress.Func) (*flock.Lock, error) {
	digest, sealed, err := seal(ctx, dir, env.Name, report)
	if err != nil {
		return nil, err
	}
	size := allocated(filepath.Join(dir, imageFile))
	lock, err := s.install(ctx, dir, digest, env.Name, sealed, report)
	if lock != sealed {
		sealed.Release()
	}
	env.installed(digest, size)
	return lock, err
}

// debianSpace is the disk space that a build needs, in bytes. It includes the unpacked packages,
// their downloads and the image.
var debianSpace = map[string]int64{"debian:12": 1 << 30, "debian:12-base": 600 << 20, "debian:12-build": 2500 << 20}

func (s *Store) build(ctx context.Context, env Environment, work *staging, path string, report progress.Func) error {
	if err := checkSpace(work.dir, debianSpace[env.Name]); err != nil {
		return err
	}
	dir := work.path("build")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Round dates of generated files to the day, so that builds of the same packages on the same
	// day are equal.
	limits := ext4image.Limits{Newest: time.Now().UTC().Truncate(24 * time.Hour)}
	return imageFrom(ctx, path, limits, func(ctx context.Context, out io.Writer) error {
		return s.bootstrap(ctx, env.Packages, dir, out, report, env.Name)
	})
}

// fetch pulls an image, and returns its configuration.
func (s *Store) fetch(ctx context.Context, env *Environment, work *staging, path string, report progress.Func) (*v1.Config, error) {
	dir := work.path("layers")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	ref, err := oci.Parse(env.Reference)
	if err != nil {
		return nil, err
	}
	space := func(need int64) error { return checkSpace(dir, need) }
	img, err := oci.Fetch(ctx, ref, dir, s.reach, space, report)
	if err != nil {
		return nil, err
	}
	env.take(img)
	report.Phase("unpacking layers", env.Name)
	return &img.Config, imageFrom(ctx, path, ext4image.Limits{Bytes: oci.MaxBytes, Entries: oci.MaxEntries}, img.WriteTar)
}

// imageFrom builds an image from the archive that the function write produces. If one side fails,
// imageFrom stops the other side and returns the original error.
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
		// Build ignores data after the end of the archive, but the writer must be able to finish.
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
