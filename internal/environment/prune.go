package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// PruneOptions say what to prune beside what nobody could use any more.
type PruneOptions struct {
	All  bool            // every installed environment that is not in use
	Keep map[string]bool // digests of images that are in use by what does not run now
}

// Pruned says what was removed. It is part of the JSON contract.
type Pruned struct {
	Removed    []Removed `json:"removed"`
	FreedBytes int64     `json:"freed_bytes"`
}

// Removed is one thing that was removed.
type Removed struct {
	Kind       string `json:"kind"` // "environment", "content" that no name stands for, "kernel", "initramfs" or "staging"
	Name       string `json:"name,omitempty"`
	Digest     string `json:"digest,omitempty"`
	FreedBytes int64  `json:"freed_bytes"`
}

// keepFor is how long a kernel or initramfs that nobody refers to is kept after its last use: longer than any start takes between asking for it and
// having read it.
const keepFor = time.Hour

// Prune removes images that no name stands for any more, what interrupted pulls left behind, and kernels and initramfs images that have been superseded.
// What a lease of any process holds stays.
func (s *Store) Prune(ctx context.Context, options PruneOptions) (Pruned, error) {
	p := &pruning{store: s, keep: options.Keep, done: Pruned{Removed: []Removed{}}}
	var steps []func(context.Context) error
	if exists(s.root) {
		steps = append(steps, p.staging(s.root))
		if options.All {
			steps = append(steps, p.names)
		}
		steps = append(steps, p.content)
	}
	if exists(s.kernels) {
		steps = append(steps, p.staging(s.kernels), p.kernels)
	}
	for _, step := range steps {
		if err := errors.Join(ctx.Err(), step(ctx)); err != nil {
			return p.done, err
		}
	}
	return p.done, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type pruning struct {
	store *Store
	keep  map[string]bool
	done  Pruned
}

func (p *pruning) removed(r Removed) {
	p.done.Removed = append(p.done.Removed, r)
	p.done.FreedBytes += r.FreedBytes
}

func (p *pruning) staging(parent string) func(context.Context) error {
	return func(context.Context) error {
		freed, err := sweep(parent)
		if freed > 0 {
			p.removed(Removed{Kind: "staging", FreedBytes: freed})
		}
		return err
	}
}

// names removes every environment that is neither in use nor being pulled.
func (p *pruning) names(ctx context.Context) error {
	records, err := p.store.records()
	if err != nil {
		return err
	}
	for _, record := range records {
		if err := p.name(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

func (p *pruning) name(ctx context.Context, record Environment) error {
	s := p.store
	if p.keep[record.Digest] {
		return nil
	}
	pulling, err := flock.Try(filepath.Join(s.root, "locks", fileName(record.Name)), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil
	} else if err != nil {
		return err
	}
	defer pulling.Release()
	content, err := s.lockContent(ctx)
	if err != nil {
		return err
	}
	defer content.Release()
	inUse, err := flock.Try(filepath.Join(s.contentDir(record.Digest), lockFile), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer inUse.Release()
	if err := os.Remove(s.recordPath(record.Name)); errors.Is(err, fs.ErrNotExist) {
		return nil // another prune was faster
	} else if err != nil {
		return err
	}
	removed := Removed{Kind: "environment", Name: record.Name, Digest: record.Digest}
	records, err := s.records()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(records, func(e Environment) bool { return e.Digest == record.Digest }) {
		dir := s.contentDir(record.Digest)
		removed.FreedBytes = allocated(dir)
		if err := s.discard(dir); err != nil {
			return err
		}
	}
	p.removed(removed)
	return nil
}

// content removes what no name stands for. A pull that has put its image in place but not yet named it holds the image's lock.
func (p *pruning) content(ctx context.Context) error {
	s := p.store
	lock, err := s.lockContent(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	folders, err := filepath.Glob(filepath.Join(s.root, "content", "*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		if p.keep["sha256:"+filepath.Base(dir)] {
			continue
		}
		inUse, err := flock.Try(filepath.Join(dir, lockFile), flock.Exclusive)
		if errors.Is(err, flock.ErrHeld) {
			continue
		} else if err != nil {
			return err
		}
		// Looked up only now: a pull that let go of the image has named it by then.
		records, err := s.records()
		digest := "sha256:" + filepath.Base(dir)
		if err == nil && !slices.ContainsFunc(records, func(e Environment) bool { return e.Digest == digest }) {
			freed := allocated(dir)
			if err = s.discard(dir); err == nil {
				p.removed(Removed{Kind: "content", Digest: digest, FreedBytes: freed})
			}
		}
		inUse.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// kernels removes those that are no longer anybody's choice, and each initramfs that has not been used for a while.
func (p *pruning) kernels(ctx context.Context) error {
	s := p.store
	lock, err := waitFor(ctx, s.kernels, ".lock", nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	entries, err := os.ReadDir(s.kernels)
	if err != nil {
		return err
	}
	chosen := map[string]bool{}
	for _, entry := range entries {
		var c choice
		if name := entry.Name(); name == "default.json" || strings.HasPrefix(name, "chosen-") {
			if text, err := os.ReadFile(filepath.Join(s.kernels, name)); err == nil && json.Unmarshal(text, &c) == nil {
				chosen[strings.TrimPrefix(c.Digest, "sha256:")] = c.Path == "" || exists(c.Path)
			}
		}
	}
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(s.kernels, name)
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < keepFor {
			continue
		}
		switch {
		case entry.IsDir() && isDigest("sha256:"+name) && !chosen[name]:
			err = p.remove(Removed{Kind: "kernel", Digest: "sha256:" + name}, path)
		case strings.HasPrefix(name, initramfsPrefix) && !strings.HasSuffix(name, ".json"):
			if used, statErr := os.Stat(path + ".json"); statErr == nil && time.Since(used.ModTime()) < keepFor {
				continue
			}
			err = p.remove(Removed{Kind: "initramfs", Digest: "sha256:" + strings.TrimPrefix(name, initramfsPrefix)}, path, path+".json")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pruning) remove(what Removed, paths ...string) error {
	for _, path := range paths {
		what.FreedBytes += allocated(path)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	p.removed(what)
	return nil
}
