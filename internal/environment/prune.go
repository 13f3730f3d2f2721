package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// PruneOptions specifies what to remove besides unused files.
type PruneOptions struct {
	All    bool // also remove every installed environment that is not in use
	Keep   Keep
	DryRun bool // remove nothing: the result lists what would be removed. Keeps no locks.
}

// Keep returns the digests of the images to keep, because workspaces use them. It is called while
// an image is locked. A nil Keep returns none.
type Keep func(context.Context) (map[string]bool, error)

func (k Keep) has(ctx context.Context, digest string) (bool, error) {
	if k == nil {
		return false, nil
	}
	digests, err := k(ctx)
	return digests[digest], err
}

// Pruned lists the removed and the kept files. It is part of the JSON contract.
type Pruned struct {
	Removed    []Removed `json:"removed"`
	Kept       []Kept    `json:"kept"`
	FreedBytes int64     `json:"freed_bytes"`
}

// Removed is one removed item.
type Removed struct {
	Kind       string `json:"kind"` // "environment", "content" without a name, "layer", "cache", "kernel", "initramfs" or "staging"
	Name       string `json:"name,omitempty"`
	Digest     string `json:"digest,omitempty"`
	FreedBytes int64  `json:"freed_bytes"`
}

// keepFor is how long Prune keeps an unreferenced kernel or initramfs after its last use. This is
// longer than the time between the lookup of a kernel and the start of a machine.
const keepFor = time.Hour

// Prune removes images without a name, leftovers of interrupted pulls, and superseded kernels and
// initramfs images. It keeps every image to which a process has a reference.
func (s *Store) Prune(ctx context.Context, options PruneOptions) (Pruned, error) {
	p := &pruner{store: s, all: options.All, dry: options.DryRun, keep: options.Keep, gone: map[string]bool{}, done: Pruned{Removed: []Removed{}, Kept: []Kept{}}}
	var steps []func(context.Context) error
	if exists(s.root) {
		steps = append(steps, p.staging(s.root), p.names, p.layers, p.content)
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

type pruner struct {
	store    *Store
	all, dry bool
	keep     Keep
	gone     map[string]bool // names and digests that a dry run would remove
	done     Pruned
}

func (p *pruner) removed(r Removed) {
	p.done.Removed = append(p.done.Removed, r)
	p.done.FreedBytes += r.FreedBytes
}

func (p *pruner) staging(parent string) func(context.Context) error {
	return func(context.Context) error {
		find := sweep
		if p.dry {
			find = abandoned
		}
		freed, err := find(parent)
		if freed > 0 {
			p.removed(Removed{Kind: "staging", FreedBytes: freed})
		}
		return err
	}
}

// names removes environments that are not in use and that no process is pulling. Without all, it
// only reports why it keeps them.
func (p *pruner) names(ctx context.Context) error {
	records, err := p.store.records()
	if err != nil {
		return err
	}
	for _, record := range records {
		reason, err := p.name(ctx, record)
		if err != nil {
			return err
		}
		if reason != "" {
			p.kept(Kept{Kind: "environment", Name: record.Name, Digest: record.Digest, SizeBytes: record.SizeBytes, Reason: reason})
		}
	}
	return nil
}

// name removes an environment, or returns the reason to keep it.
func (p *pruner) name(ctx context.Context, record Environment) (reason string, err error) {
	s := p.store
	if !p.all {
		if used, err := p.keep.has(ctx, record.Digest); err != nil || used {
			return keptForWorkspace, err
		}
		return keptInstalled, nil
	}
	pulling, err := p.try(filepath.Join(s.root, "locks", fileName(record.Name)))
	if errors.Is(err, flock.ErrHeld) {
		return keptPulling, nil
	} else if err != nil {
		return "", err
	}
	defer pulling.Release()
	content, err := p.lockContent(ctx)
	if err != nil {
		return "", err
	}
	defer content.Release()
	image, reason, err := p.lockUnused(ctx, record.Digest)
	if err != nil || reason != "" {
		return reason, err
	}
	defer image.Release()
	if p.dry {
		p.gone[record.Name] = true
	} else if err := os.Remove(s.recordPath(record.Name)); errors.Is(err, fs.ErrNotExist) {
		return "", nil // Another prune has removed the record.
	} else if err != nil {
		return "", err
	}
	removed := Removed{Kind: "environment", Name: record.Name, Digest: record.Digest}
	named, err := p.named(record.Digest)
	if err != nil {
		return "", err
	}
	if dir := s.contentDir(record.Digest); !named && exists(dir) {
		removed.FreedBytes = allocated(dir)
		if err := p.discard(dir); err != nil {
			return "", err
		}
	}
	p.removed(removed)
	return "", nil
}

// lockUnused locks an image that can be removed, or returns the reason to keep the image. If the
// image is missing, the lock is nil.
func (p *pruner) lockUnused(ctx context.Context, digest string) (lock *flock.Lock, reason string, err error) {
	lock, err = p.try(filepath.Join(p.store.contentDir(digest), lockFile))
	if errors.Is(err, flock.ErrHeld) {
		reason = keptForMachine
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	// The records are read after the image was locked, because the creator of a workspace locks the
	// image until the record exists.
	used, err := p.keep.has(ctx, digest)
	if used {
		reason = keptForWorkspace
	}
	if err != nil || reason != "" {
		lock.Release()
		return nil, reason, err
	}
	return lock, "", nil
}

// content removes images without a name. A pull holds the lock of its image from the installation
// until the image has a name.
func (p *pruner) content(ctx context.Context) error {
	lock, err := p.lockContent(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	folders, err := filepath.Glob(filepath.Join(p.store.root, "content", "*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		if err := p.unnamed(ctx, dir, "sha256:"+filepath.Base(dir)); err != nil {
			return err
		}
	}
	return nil
}

// unnamed removes a content directory if the image has no name and is not in use.
func (p *pruner) unnamed(ctx context.Context, dir, digest string) error {
	if p.gone[digest] {
		return nil // it is part of an environment
	}
	image, reason, err := p.lockUnused(ctx, digest)
	if err != nil {
		return err
	}
	defer image.Release()
	// Read the records after taking the lock, because a pull names its image before it releases
	// the lock.
	if named, err := p.named(digest); err != nil || named {
		return err
	}
	size := allocated(dir)
	if reason != "" {
		p.kept(Kept{Kind: "content", Digest: digest, SizeBytes: size, Reason: reason})
		return nil
	}
	if err := p.discard(dir); err != nil {
		return err
	}
	p.removed(Removed{Kind: "content", Digest: digest, FreedBytes: size})
	return nil
}

// kernels removes kernels to which no choice refers, and each initramfs that was not used recently.
func (p *pruner) kernels(ctx context.Context) error {
	s := p.store
	if !p.dry {
		lock, err := takeLock(ctx, s.kernels, ".lock", nil)
		if err != nil {
			return err
		}
		defer lock.Release()
	}
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
		if err := p.kernel(entry, chosen); err != nil {
			return err
		}
	}
	return nil
}

// kernel removes a kernel or an initramfs if it is not needed. It ignores other files. chosen
// contains the names of the kernels to which a choice refers.
func (p *pruner) kernel(entry fs.DirEntry, chosen map[string]bool) error {
	name := entry.Name()
	path := filepath.Join(p.store.kernels, name)
	paths, what := []string{path}, Removed{}
	switch {
	case entry.IsDir() && isDigest("sha256:"+name):
		what = Removed{Kind: "kernel", Digest: "sha256:" + name}
	case strings.HasPrefix(name, initramfsPrefix) && !strings.HasSuffix(name, ".json"):
		what = Removed{Kind: "initramfs", Digest: "sha256:" + strings.TrimPrefix(name, initramfsPrefix)}
		paths = append(paths, path+".json")
	default:
		return nil
	}
	reason := ""
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < keepFor {
			reason = keptYoung
		} else if err != nil && path == paths[0] {
			return nil // another process has removed it
		}
	}
	if chosen[name] {
		reason = keptCurrent
	}
	for _, path := range paths {
		what.FreedBytes += allocated(path)
	}
	if reason != "" {
		p.kept(Kept{Kind: what.Kind, Digest: what.Digest, SizeBytes: what.FreedBytes, Reason: reason})
		return nil
	}
	what.FreedBytes = 0
	return p.remove(what, paths...)
}

// remove removes files, except in a dry run.
func (p *pruner) remove(what Removed, paths ...string) error {
	for _, path := range paths {
		what.FreedBytes += allocated(path)
		if p.dry {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	p.removed(what)
	return nil
}
