package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/environment/oci"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// Recipe lists the parts of an environment that was built on this host.
type Recipe struct {
	Base   string    `json:"base"`             // digest of the image below the layers
	Layers []string  `json:"layers,omitempty"` // digests, lowest first
	Config v1.Config `json:"config"`           // the configuration for OCI registries
}

// stored is the record of an environment in a file.
type stored struct {
	Environment
	Recipe *Recipe    `json:"recipe,omitempty"` // nil if it was pulled
	Config *v1.Config `json:"config,omitempty"` // Of the pulled image. Nil if an early version pulled it.
}

// storedRecord reads the record of an environment. It does not check whether the image exists.
func (s *Store) storedRecord(path string) (stored, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return stored{}, err
	}
	var record stored
	if json.Unmarshal(text, &record) != nil || !isDigest(record.Digest) || s.recordPath(record.Name) != path {
		return stored{}, fs.ErrNotExist // Treat a malformed record as missing, so that the next pull replaces it.
	}
	if r := record.Recipe; r != nil && (!isDigest(r.Base) || slices.ContainsFunc(r.Layers, func(l string) bool { return !isDigest(l) })) {
		return stored{}, fs.ErrNotExist
	}
	return record, nil
}

// recipes returns the recipes of the environments that were made on this host, except some names.
func (s *Store) recipes(except map[string]bool) ([]Recipe, error) {
	files, err := filepath.Glob(filepath.Join(s.root, "names", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Recipe
	for _, file := range files {
		record, err := s.storedRecord(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if record.Recipe != nil && !except[record.Name] {
			all = append(all, *record.Recipe)
		}
	}
	return all, nil
}

// NewName returns the full name of an environment that is made on this host. The text is a name
// with an optional tag, such as tool:1 or registry.example/team/tool. Names of the catalogue and
// digests are errors of kind Invalid.
func NewName(text string) (string, error) {
	env, err := resolve(text)
	if err != nil {
		return "", err
	}
	if env.Source != SourceOCI {
		return "", fault.New(fault.Invalid, "name environment", text, "this name is in pyro's catalogue; choose another one")
	}
	ref, err := oci.Parse(text)
	if err != nil {
		return "", err
	}
	if !oci.IsTag(ref) {
		return "", fault.New(fault.Invalid, "name environment", text, "a name can't contain a digest")
	}
	return env.Name, nil
}

// Make installs an environment under a full name. Its file system is the base of the recipe with
// the layers on top. Make fills in the fields of env that describe the image. Environments with the
// same base and layers share one image.
func (l *Layers) Make(ctx context.Context, env Environment, recipe Recipe, report progress.Func) (Environment, error) {
	return l.store.makeNamed(ctx, env, recipe, report, func(env *Environment) (*ImageRef, error) {
		return l.store.composed(ctx, env, recipe, report)
	})
}

// MakeFrom installs an environment with the files of a tree under a full name, without layers. It
// sets the base of the recipe.
func (s *Store) MakeFrom(ctx context.Context, env Environment, recipe Recipe, tree view.Tree, report progress.Func) (Environment, error) {
	return s.makeNamed(ctx, env, recipe, report, func(env *Environment) (*ImageRef, error) {
		return s.installImage(ctx, env, 0o755, report, filled(ctx, env.Name, report, copyOf(ctx, tree)))
	})
}

// makeNamed creates an image with the function install and names it.
func (s *Store) makeNamed(ctx context.Context, env Environment, recipe Recipe, report progress.Func, install func(*Environment) (*ImageRef, error)) (_ Environment, err error) {
	defer func() { err = fault.Wrap(err, "make environment", env.Name) }()
	waited := func() { report.Phase("waiting for another pyro", env.Name) }
	lock, err := takeLock(ctx, filepath.Join(s.root, "locks"), fileName(env.Name), waited)
	if err != nil {
		return Environment{}, err
	}
	defer lock.Release()
	ref, err := install(&env)
	if err != nil {
		return Environment{}, err
	}
	defer ref.Close()
	if recipe.Base == "" {
		recipe.Base = env.Digest
	}
	return env, s.writeStored(stored{Environment: env, Recipe: &recipe})
}

// composed returns a reference to the image of a recipe.
func (s *Store) composed(ctx context.Context, env *Environment, recipe Recipe, report progress.Func) (*ImageRef, error) {
	if ref := s.shared(ctx, env, recipe, report); ref != nil {
		return ref, nil
	}
	base, err := s.UseDigest(ctx, recipe.Base, env.Name, report)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	tree, err := OpenTree(base)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	for _, layer := range recipe.Layers {
		if err := s.over(ctx, tree, layer); err != nil {
			return nil, err
		}
	}
	return s.installImage(ctx, env, 0o755, report, filled(ctx, env.Name, report, copyOf(ctx, tree)))
}

// shared returns a reference to an installed image that has the content of a recipe, or nil.
func (s *Store) shared(ctx context.Context, env *Environment, recipe Recipe, report progress.Func) *ImageRef {
	digest := ""
	if len(recipe.Layers) == 0 {
		digest = recipe.Base
	}
	files, _ := filepath.Glob(filepath.Join(s.root, "names", "*.json"))
	for _, file := range files {
		record, err := s.storedRecord(file)
		if err == nil && record.Recipe != nil && record.Recipe.Base == recipe.Base && slices.Equal(record.Recipe.Layers, recipe.Layers) {
			digest = record.Digest
		}
	}
	if digest == "" {
		return nil
	}
	ref, err := s.openContent(ctx, Environment{Name: env.Name, Digest: digest}, report)
	if err != nil {
		return nil // make the image again
	}
	env.installed(digest, allocated(ref.Image))
	ref.Environment = *env
	return ref
}

// copyOf returns a function that fills an image with the files of a tree.
func copyOf(ctx context.Context, tree view.Tree) func(*mkext4.Writer) error {
	return func(to *mkext4.Writer) error { return view.Copy(ctx, tree, to) }
}

// reopen opens an environment that was made on this host. If its image is missing or damaged,
// reopen makes the image again from its layers.
func (s *Store) reopen(ctx context.Context, made stored, report progress.Func) (*ImageRef, error) {
	ref, err := s.openContent(ctx, made.Environment, report)
	if err == nil || !mustPull(err) {
		return ref, err
	}
	lost := fault.New(fault.Corrupt, "use environment", made.Name, "its image is missing or damaged, and so is a layer of it").WithHint("build it again")
	if len(made.Recipe.Layers) == 0 {
		return nil, lost
	}
	if fault.KindOf(err) == fault.Corrupt {
		if err := s.discardDamaged(ctx, made.Digest, made.Name, report); err != nil {
			return nil, err
		}
	}
	ref, err = s.composed(ctx, &made.Environment, *made.Recipe, report)
	if k := fault.KindOf(err); k == fault.NotFound || k == fault.Corrupt {
		return nil, lost
	}
	return ref, err
}

// Scratch returns a reference to an image without files. The caller must close it.
func (l *Layers) Scratch(ctx context.Context, report progress.Func) (*ImageRef, error) {
	env := Environment{Name: "scratch"}
	return l.store.installImage(ctx, &env, 0o755, report, func(_ *staging, path string) error {
		report.Phase("writing the image", env.Name)
		return ext4image.Build(ctx, bytes.NewReader(make([]byte, 1024)), path, ext4image.Limits{}) // an archive without entries
	})
}

// Recipe returns the recipe and the record of an installed environment. Without a recipe, the
// environment's image is the base.
func (s *Store) Recipe(name string) (Environment, Recipe, error) {
	env, err := resolve(name)
	if err != nil {
		return Environment{}, Recipe{}, err
	}
	record, err := s.storedRecord(s.recordPath(env.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return Environment{}, Recipe{}, fault.New(fault.NotFound, "find environment", name, "%w", ErrNotInstalled).WithHint("pyro env list")
	}
	if err != nil {
		return Environment{}, Recipe{}, err
	}
	if record.Recipe != nil {
		return record.Environment, *record.Recipe, nil
	}
	config := record.config()
	if record.Config != nil {
		config = *record.Config
	}
	return record.Environment, Recipe{Base: record.Digest, Config: config}, nil
}

// isBase reports whether an environment that was made on this host has the image as its base. It
// ignores some names. If the records can't be read, it returns true.
func (s *Store) isBase(digest string, except map[string]bool) bool {
	recipes, err := s.recipes(except)
	return err != nil || slices.ContainsFunc(recipes, func(r Recipe) bool { return r.Base == digest })
}
