package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	stdhash "hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Layers is the part of a store with the layers of builds and the results of their steps. A layer
// contains the changes of one step, as a tar archive in the format of [view.Over]. While Layers is
// open, Prune removes no layer. It is safe for concurrent use.
type Layers struct {
	store *Store
	lock  *flock.Lock
}

// Limits of layers.
const (
	MaxLayerBytes = 8 << 30 // size of a layer
	MaxLayers     = 127     // number of layers of an environment, as in Docker
)

// OpenLayers opens the layers of a store. The caller must close them.
func (s *Store) OpenLayers(ctx context.Context) (*Layers, error) {
	for _, dir := range []string{"locks", "layers", "steps"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			return nil, fault.Wrap(err, "open layers", s.root)
		}
	}
	lock, err := flock.Take(ctx, s.layersLock(), flock.Shared, nil)
	if err != nil {
		return nil, fault.Wrap(err, "open layers", s.root)
	}
	return &Layers{s, lock}, nil
}

// Close releases the layers. It is idempotent.
func (l *Layers) Close() { l.lock.Release() }

func (s *Store) layersLock() string { return filepath.Join(s.root, "locks", ".layers") }

func (s *Store) layerPath(digest string) string {
	return filepath.Join(s.root, "layers", strings.TrimPrefix(digest, "sha256:")+".tar")
}

// Add stores a layer, which the function write writes as a tar archive, and returns its digest. A
// layer that exists already is not stored twice.
func (l *Layers) Add(ctx context.Context, write func(io.Writer) error) (digest string, err error) {
	work, err := newStaging(l.store.root)
	if err != nil {
		return "", err
	}
	defer work.Close()
	file, err := os.OpenFile(work.path("layer"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", err
	}
	defer file.Close()
	out := &layerWriter{ctx: ctx, out: file, sum: sha256.New()}
	if err := write(out); err != nil {
		return "", err
	}
	digest = "sha256:" + hex.EncodeToString(out.sum.Sum(nil))
	path := l.store.layerPath(digest)
	if _, err := os.Stat(path); err == nil {
		return digest, nil
	}
	return digest, errors.Join(file.Sync(), os.Rename(file.Name(), path), durable.Sync(filepath.Dir(path)))
}

// layerWriter writes and hashes a layer.
type layerWriter struct {
	ctx  context.Context
	out  io.Writer
	sum  stdhash.Hash
	size int64
}

func (w *layerWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if w.size += int64(len(p)); w.size > MaxLayerBytes {
		return 0, fault.Newf(fault.Exhausted, "a layer can have at most %d GiB", MaxLayerBytes>>30)
	}
	w.sum.Write(p)
	return w.out.Write(p)
}

// Open opens a layer for reading. The caller must close it.
func (l *Layers) Open(digest string) (*os.File, error) { return l.store.openLayer(digest) }

func (s *Store) openLayer(digest string) (*os.File, error) {
	if !isDigest(digest) {
		return nil, fault.New(fault.Corrupt, "open layer", digest, "this is not a digest")
	}
	file, err := os.Open(s.layerPath(digest))
	return file, fault.Wrap(err, "open layer", digest)
}

// OpenCache opens the content of a folder that a step of an earlier build has kept, as a tar
// archive. The name is a hash in hexadecimal. fs.ErrNotExist: there is none.
func (l *Layers) OpenCache(name string) (*os.File, error) { return os.Open(l.store.cachePath(name)) }

// KeepCache keeps the content of a folder for later builds. The function write writes it as a tar
// archive.
func (l *Layers) KeepCache(ctx context.Context, name string, write func(io.Writer) error) error {
	path := l.store.cachePath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	replacement := durable.Replacement{Temp: "." + name + "-*", Check: ctx.Err}
	return replacement.WriteFunc(path, func(file *os.File) error {
		return write(&layerWriter{ctx: ctx, out: file, sum: sha256.New()})
	})
}

func (s *Store) cachePath(name string) string { return filepath.Join(s.root, "caches", name+".tar") }

// Tree is the file system of a base with layers on top of it.
type Tree struct {
	view.Tree
	files []io.Closer
}

// Close closes the files of the tree.
func (t *Tree) Close() error {
	var errs []error
	for _, file := range t.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// OpenTree opens the file system of an image. The caller must close the tree, and hold the
// reference until then.
func OpenTree(ref *ImageRef) (*Tree, error) {
	file, err := os.Open(ref.Image)
	if err != nil {
		return nil, err
	}
	fsys, err := ext4.OpenFile(file)
	if err != nil {
		file.Close()
		return nil, fault.Wrap(err, "read environment", ref.Name)
	}
	return &Tree{fsys, []io.Closer{file}}, nil
}

// Apply puts a layer on top of a tree. The tree then includes the layer.
func (l *Layers) Apply(ctx context.Context, tree *Tree, digest string) error {
	return l.store.over(ctx, tree, digest)
}

func (s *Store) over(ctx context.Context, tree *Tree, digest string) error {
	file, err := s.openLayer(digest)
	if err != nil {
		return err
	}
	tree.files = append(tree.files, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	tree.Tree, err = view.Over(ctx, tree.Tree, file, info.Size())
	return fault.Wrap(err, "read layer", digest)
}

// step is the stored result of a build step.
type step struct {
	Layer string `json:"layer,omitempty"` // empty if the step changed no file
}

func (s *Store) stepPath(key string) string { return filepath.Join(s.root, "steps", key+".json") }

// Step returns the layer that an earlier build made for a step. The layer is empty if that step
// changed no file. Step marks the result as used.
func (l *Layers) Step(key string) (layer string, known bool) {
	path := l.store.stepPath(key)
	text, err := os.ReadFile(path)
	var found step
	if err != nil || json.Unmarshal(text, &found) != nil || found.Layer != "" && !isDigest(found.Layer) {
		return "", false
	}
	if found.Layer != "" {
		if _, err := os.Stat(l.store.layerPath(found.Layer)); err != nil {
			return "", false
		}
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // if this fails, Prune only removes the result earlier
	return found.Layer, true
}

// KeepStep stores the result of a step. The key is the hash of everything on which the step
// depends, in hexadecimal.
func (l *Layers) KeepStep(key, layer string) error {
	text, err := json.Marshal(step{layer})
	if err != nil {
		return err
	}
	return durable.Replace(l.store.stepPath(key), text)
}

// keepSteps is how long Prune keeps the result of a step, or a cache, after its last use.
const keepSteps = 7 * 24 * time.Hour

// layers removes results of steps and caches that were not used for a while. It also removes layers
// that neither a result nor an environment needs. With All it removes all results and caches. It
// removes nothing while a build runs.
func (p *pruner) layers(context.Context) error {
	s := p.store
	if !exists(filepath.Join(s.root, "layers")) {
		return nil
	}
	lock, err := p.try(s.layersLock())
	if errors.Is(err, flock.ErrHeld) {
		return nil
	} else if err != nil {
		return err
	}
	defer lock.Release()
	needed, err := p.neededLayers()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(s.root, "layers", "*"))
	if err != nil {
		return err
	}
	for _, path := range files {
		digest := "sha256:" + strings.TrimSuffix(filepath.Base(path), ".tar")
		if needed[digest] {
			continue
		}
		if err := p.remove(Removed{Kind: "layer", Digest: digest}, path); err != nil {
			return err
		}
	}
	caches, err := filepath.Glob(filepath.Join(s.root, "caches", "*"))
	if err != nil {
		return err
	}
	for _, path := range caches {
		if info, err := os.Stat(path); err == nil && !p.all && time.Since(info.ModTime()) < keepSteps {
			continue
		}
		if err := p.remove(Removed{Kind: "cache"}, path); err != nil {
			return err
		}
	}
	return nil
}

// neededLayers removes old results of steps. It returns the layers of the other results and of all
// environments.
func (p *pruner) neededLayers() (map[string]bool, error) {
	recipes, err := p.store.recipes(p.gone)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, r := range recipes {
		for _, layer := range r.Layers {
			needed[layer] = true
		}
	}
	results, err := filepath.Glob(filepath.Join(p.store.root, "steps", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range results {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if p.all || time.Since(info.ModTime()) > keepSteps {
			if p.dry {
				continue
			}
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		var found step
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &found) == nil {
			needed[found.Layer] = true
		}
	}
	return needed, nil
}
