package environment

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Push writes an installed environment to an OCI registry, under the name that target refers to.
// Its base is one layer, and each step of its build is another one. It returns the digest of the
// manifest.
func (s *Store) Push(ctx context.Context, name, target string, report progress.Func) (digest string, err error) {
	ref, err := oci.Parse(target)
	if err != nil {
		return "", err
	}
	if !oci.IsTag(ref) {
		return "", fault.New(fault.Invalid, "push environment", target, "the target can't contain a digest")
	}
	img, closeImage, err := s.image(ctx, name, report)
	if err != nil {
		return "", err
	}
	defer closeImage()
	return oci.Push(ctx, ref, img, report)
}

// Save writes an installed environment as an OCI layout. The path becomes a tar archive if it ends
// in .tar, and otherwise a folder, which must not exist or must be empty. If Save fails, an
// incomplete folder can remain.
func (s *Store) Save(ctx context.Context, name, path string, report progress.Func) error {
	img, closeImage, err := s.image(ctx, name, report)
	if err != nil {
		return err
	}
	defer closeImage()
	report.Phase("writing layers", name)
	return fault.Wrap(s.save(ctx, name, path, img), "save environment to", path)
}

func (s *Store) save(ctx context.Context, name, path string, img v1.Image) error {
	if !strings.HasSuffix(path, ".tar") {
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			return fault.Newf(fault.Exists, "the folder is not empty")
		}
		return oci.Save(path, name, img)
	}
	work, err := newStaging(s.root)
	if err != nil {
		return err
	}
	defer work.Close()
	folder := work.path("layout")
	if err := errors.Join(os.Mkdir(folder, 0o755), oci.Save(folder, name, img)); err != nil {
		return err
	}
	return archiveFolder(ctx, folder, path)
}

// archiveFolder writes a folder as a tar archive. An existing file is replaced when the archive is
// complete.
func archiveFolder(ctx context.Context, folder, path string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	replacement := durable.Replacement{Mode: 0o644, Temp: "." + filepath.Base(path) + "-*", Check: ctx.Err}
	return replacement.WriteFunc(path, func(file *os.File) error { return view.Archive(ctx, view.Folder(root), file) })
}

// image returns an installed environment as an OCI image. The caller must call closeImage when it
// has read the image.
func (s *Store) image(ctx context.Context, name string, report progress.Func) (img v1.Image, closeImage func(), err error) {
	l, err := s.OpenLayers(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	env, recipe, err := s.Recipe(name)
	if err != nil {
		return nil, nil, err
	}
	base, err := s.UseDigest(ctx, recipe.Base, env.Name, report)
	if err != nil {
		return nil, nil, err
	}
	tree, err := OpenTree(base)
	if err != nil {
		base.Close()
		return nil, nil, err
	}
	closeImage = func() {
		tree.Close()
		base.Close()
		l.Close()
	}
	var layers []oci.Layer
	if entries, err := tree.ReadDir("."); err != nil || len(entries) > 0 {
		layers = append(layers, func(ctx context.Context, to io.Writer) error { return view.Archive(ctx, tree, to) })
	}
	for _, digest := range recipe.Layers {
		layers = append(layers, func(_ context.Context, to io.Writer) error {
			file, err := l.Open(digest)
			if err != nil {
				return err
			}
			defer file.Close()
			return oci.Whiteouts(file, to)
		})
	}
	report.Phase("hashing layers", env.Name)
	if img, err = oci.Compose(ctx, recipe.Config, layers); err != nil {
		closeImage()
		return nil, nil, fault.Wrap(err, "read environment", env.Name)
	}
	return img, closeImage, nil
}

// Load installs an environment from an OCI layout, which is a folder or a tar archive. An empty
// name means the name in the layout. Load trusts nothing in the layout.
func (s *Store) Load(ctx context.Context, path, name string, report progress.Func) (Environment, error) {
	env, err := s.load(ctx, path, name, report)
	return env, fault.Wrap(err, "load environment from", path)
}

func (s *Store) load(ctx context.Context, path, name string, report progress.Func) (Environment, error) {
	work, err := newStaging(s.root)
	if err != nil {
		return Environment{}, err
	}
	defer work.Close()
	folder, err := unpackedLayout(ctx, path, work)
	if err != nil {
		return Environment{}, err
	}
	dir := work.path("layers")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return Environment{}, err
	}
	img, inside, err := oci.Load(ctx, folder, dir, func(need int64) error { return checkSpace(dir, need) }, report)
	if err != nil {
		return Environment{}, err
	}
	if name == "" {
		name = inside
	}
	if name == "" {
		return Environment{}, fault.Newf(fault.Invalid, "the layout has no name for the image").WithHint("pyro env load %s -t NAME", path)
	}
	if name, err = NewName(name); err != nil {
		return Environment{}, err
	}
	env := Environment{Name: name, Source: SourceOCI, Reference: path}
	env.take(img)
	recipe := Recipe{Config: img.Config}
	return s.makeNamed(ctx, env, recipe, report, func(env *Environment) (*ImageRef, error) {
		return s.installImage(ctx, env, 0o755, report, func(_ *staging, path string) error {
			report.Phase("writing the image", env.Name)
			return imageFrom(ctx, path, ext4image.Limits{Bytes: oci.MaxBytes, Entries: oci.MaxEntries}, img.WriteTar)
		})
	})
}

// unpackedLayout returns the folder of a layout. It unpacks an archive.
func unpackedLayout(ctx context.Context, path string, work *staging) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return path, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := checkSpace(work.dir, min(info.Size(), oci.MaxCompressed)); err != nil {
		return "", err
	}
	folder := work.path("layout")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	return folder, oci.UnpackLayout(ctx, file, folder)
}

// take copies the configuration of an image.
func (e *Environment) take(img *oci.Image) {
	c := img.Config
	e.ManifestDigest, e.Env, e.User, e.WorkDir = img.ManifestDigest, c.Env, c.User, c.WorkingDir
	e.Entrypoint, e.Cmd, e.Description = c.Entrypoint, c.Cmd, img.Description
}

// config returns the configuration of an environment for OCI registries, without the parts that
// only a stored configuration has.
func (e *Environment) config() v1.Config {
	return v1.Config{Env: e.Env, User: e.User, WorkingDir: e.WorkDir, Entrypoint: e.Entrypoint, Cmd: e.Cmd}
}
