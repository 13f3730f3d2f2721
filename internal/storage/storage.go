// Package storage stores the disks of workspaces. A workspace has a volume, which its machine
// mounts at /workspace. It also has a root, which contains the changes to its environment.
//
// There are two kinds of storage with the same contract.
//
// Block storage consists of layers of images. The lowest layer of a volume is a raw ext4 image, and
// all other layers are qcow2. A machine writes only to the highest layer. So a snapshot, a reset
// and a fork cost only one empty layer, even if the layers below are large.
//
// Tree storage consists of folders. A snapshot, a reset and a fork make a new folder. Baselines and
// snapshots never change, so other folders share their files as hard links. If Links is set, the
// folders of machines share files too, and a machine copies a shared file before it changes the
// file. A snapshot then also shares most changed files. All other files are copied. A copy shares
// blocks if the file system supports it.
//
// A [Folder] contains the disks of one workspace. Each disk gets a unique name. Storage writes a
// disk once, and flushes it before the database (internal/store) refers to it. Sweep removes disks
// that the database does not refer to. So a process that dies between two steps leaves either the
// old or the new state.
//
// A fork has hard links to the layers of its source. Layers below the highest one are never written
// again. Each layer exists until its last hard link is removed.
//
// Callers must not run two operations on the same folder at the same time, unless the comment of a
// method allows it.
package storage

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Folder is the folder with the disks of one workspace.
type Folder struct {
	Path   string // Create and Fork create it if it does not exist.
	Blocks bool   // Use block storage instead of tree storage.
	Links  bool   // Volumes of trees are made of hard links. All machines must copy files with xattr.Shared before they change them.
	Shared string // A folder on the same file system, for the initial volumes of all workspaces.
	Bytes  int64  // Size of the volume. 0 means machine.DefaultVolumeBytes, without a limit for seeds of trees.
}

// Seed writes a tar stream with the initial content of a volume. Names in the stream are relative,
// and root owns all entries.
type Seed func(ctx context.Context, to io.Writer) error

// nothing is the seed of an empty volume.
func nothing(_ context.Context, to io.Writer) error { return tar.NewWriter(to).Close() }

// into passes the output of the seed to the function take. If both fail, the error of the seed has
// precedence.
func (s Seed) into(ctx context.Context, take func(from io.Reader) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := s(ctx, w)
		w.CloseWithError(err)
		written <- err
	}()
	err := take(r)
	r.CloseWithError(errors.New("the volume could not be made"))
	if given := <-written; given != nil && (err == nil || errors.Is(err, given)) {
		return given
	}
	return err
}

// kind is the set of operations that differ between the two kinds of storage.
type kind interface {
	create(ctx context.Context, seed Seed) (store.Disks, error)
	prepare(ctx context.Context, d store.Disks, whole bool) (Snapshot, error)
	take(ctx context.Context, s Snapshot) error
	reset(ctx context.Context, from, of store.Disks, whole bool) (store.Disks, error)
	resume(ctx context.Context, d store.Disks) (store.Disks, error)
	// baseline returns layers with the content of a volume. A machine that resumes with this volume
	// never writes to them.
	baseline(ctx context.Context, volume []string) ([]string, error)
	// adopt copies or links disks of another workspace. If constant is true, no machine of either
	// workspace writes to the volume in d. If owned is also true, adopt can move the disks.
	adopt(ctx context.Context, source Folder, d store.Disks, constant, owned bool) error
	flatten(ctx context.Context, d store.Disks) (volume string, err error)
	size(d, others store.Disks) int64
}

func (f Folder) kind() kind {
	if f.Blocks {
		return blocks{f}
	}
	return trees{f}
}

// Create creates the disks of a new workspace. If seed is nil, the volume is empty. If the seed
// does not fit into the volume, the error has kind Exhausted.
func (f Folder) Create(ctx context.Context, seed Seed) (store.Disks, error) {
	if err := os.MkdirAll(f.Path, 0o700); err != nil {
		return store.Disks{}, fault.Wrap(err, "make disks", f.Path)
	}
	d, err := f.kind().create(ctx, seed)
	if errors.Is(err, mkext4.ErrFull) || errors.Is(err, errLarge) {
		err = f.full()
	}
	if err == nil {
		err = f.flush()
	}
	return d, fault.Wrap(err, "make disks", "")
}

// Machine returns the storage for a machine that uses these disks.
func (f Folder) Machine(d store.Disks) *machine.Storage {
	if f.Blocks {
		return &machine.Storage{Block: &machine.BlockStorage{Root: f.paths(d.Root), Volume: f.paths(d.Volume)}}
	}
	t := &machine.TreeStorage{Folder: f.path(top(d.Volume)), Bytes: f.Bytes}
	if len(d.Root) > 0 {
		t.Root = f.path(top(d.Root))
	}
	return &machine.Storage{Tree: t}
}

// Snapshot is a snapshot that is not complete yet.
type Snapshot struct {
	Disks store.Disks // the disks of the snapshot
	Next  store.Disks // the disks of the workspace after the snapshot

	// Paths of the new empty layers of block storage. The caller first writes Next to the database.
	// Then it adds these layers to a running machine (machine.Layerer). The database therefore
	// refers to each layer before the machine writes to it.
	RootLayer, VolumeLayer string

	from store.Disks
}

// RootCopied records in s that Disks already contains the root, so that Take does not copy the
// root.
func (s *Snapshot) RootCopied() { s.from.Root = nil }

// Prepare begins a snapshot of disks. A machine can run during the call. If whole is set, the
// snapshot includes the root.
func (f Folder) Prepare(ctx context.Context, d store.Disks, whole bool) (Snapshot, error) {
	s, err := f.kind().prepare(ctx, d, whole)
	if err == nil {
		err = f.flush()
	}
	s.from = d
	return s, fault.Wrap(err, "prepare snapshot", "")
}

// Take creates the copies of a snapshot. Block storage needs no copies. The machine must be paused
// or must have ended, so that nothing writes to the disks during the call.
func (f Folder) Take(ctx context.Context, s Snapshot) error {
	err := f.kind().take(ctx, s)
	if err == nil {
		err = f.flush()
	}
	return fault.Wrap(err, "take snapshot", "")
}

// NewRoot returns the path to which a machine saves its root (machine.RootSaver). It also returns
// the disks with that root.
func (f Folder) NewRoot(d store.Disks) (path string, next store.Disks) {
	next = d
	next.Root = []string{name("root", ".tar")}
	return f.path(next.Root[0]), next
}

// Reset creates disks that begin with the content of from, the disks of a snapshot. For a reset to
// the baseline, callers must pass the baseline as from.Volume, and false as whole. Sweep removes
// the old disks later.
func (f Folder) Reset(ctx context.Context, from, of store.Disks, whole bool) (store.Disks, error) {
	d, err := f.kind().reset(ctx, from, of, whole)
	if err == nil {
		err = f.flush()
	}
	return d, fault.Wrap(err, "reset disks", "")
}

// Fork creates the disks of a new workspace in this folder. Their initial content is a snapshot of
// another workspace. If that workspace has no machine, d can also be its current disks.
//
// If owned is true, d is a snapshot for this fork only. Fork can then move it instead of copying
// it, even if a later step fails.
func (f Folder) Fork(ctx context.Context, source Folder, d store.Disks, whole, owned bool) (store.Disks, error) {
	if err := os.MkdirAll(f.Path, 0o700); err != nil {
		return store.Disks{}, fault.Wrap(err, "fork disks", f.Path)
	}
	if !whole {
		d.Root = nil
	}
	constant := len(d.Baseline) == 0 && d.Checkpoint == "" // the source is a snapshot, and no machine resumes with its disks
	d.Baseline = nil
	if err := f.kind().adopt(ctx, source, d, constant, owned); err != nil {
		return store.Disks{}, fault.Wrap(err, "fork disks", source.Path)
	}
	base := d
	if d.Checkpoint != "" { // The checkpoint needs the disks in the state at the checkpoint.
		err := f.adoptCheckpoint(ctx, source, d.Checkpoint)
		if err == nil {
			base.Baseline, err = f.kind().baseline(ctx, d.Volume)
		}
		if err == nil {
			err = f.flush()
		}
		return base, fault.Wrap(err, "fork disks", source.Path)
	}
	base.Baseline = d.Volume
	next, err := f.kind().reset(ctx, base, base, whole)
	if err == nil {
		err = f.flush()
	}
	return next, fault.Wrap(err, "fork disks", source.Path)
}

// Sweep removes everything in the folder that does not belong to the disks in keep.
func (f Folder) Sweep(ctx context.Context, keep ...store.Disks) error {
	return fault.Wrap(f.each(keep, func(name string) error { return tree.Remove(ctx, f.path(name)) }), "sweep disks", f.Path)
}

// SetAside renames everything that Sweep would remove. Renaming is fast for any size. RemoveOld
// removes the renamed disks later.
func (f Folder) SetAside(_ context.Context, keep ...store.Disks) error {
	return fault.Wrap(f.each(keep, func(old string) error {
		if err := os.Rename(f.path(old), f.path(name(oldDisk, ""))); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}), "set disks aside", f.Path)
}

// RemoveOld removes everything that SetAside renamed. It can run at the same time as all other
// methods.
func (f Folder) RemoveOld(ctx context.Context) error {
	return fault.Wrap(f.each(nil, func(name string) error {
		if !strings.HasPrefix(name, oldDisk) {
			return nil
		}
		return tree.Remove(ctx, f.path(name))
	}), "remove old disks", f.Path)
}

// oldDisk is the prefix of names that SetAside creates.
const oldDisk = "old"

// each calls a function for each name in the folder, except the names of the disks in the parameter
// but. It stops at the first error.
func (f Folder) each(but []store.Disks, do func(name string) error) error {
	entries, err := os.ReadDir(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, d := range but {
		for _, n := range append(slices.Concat(d.Volume, d.Root, d.Baseline), d.Checkpoint) {
			wanted[n] = true
		}
	}
	for _, e := range entries {
		if wanted[e.Name()] {
			continue
		}
		if err := do(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// Size returns the number of bytes that the disks in d occupy on the host. In block storage it does
// not count layers that other disks use too. The parameter others lists these disks.
func (f Folder) Size(d, others store.Disks) int64 { return f.kind().size(d, others) }

// Record returns the record of a complete snapshot for the database. A temporary snapshot gets no
// size, because it is never listed, and measuring the size requires a walk through all files.
func (f Folder) Record(name string, whole bool, s Snapshot) store.Snapshot {
	r := store.Snapshot{Name: name, Disks: s.Disks, Whole: whole, CreatedAt: time.Now()}
	if !r.Temporary() {
		r.SizeBytes = f.Size(s.Disks, store.Disks{})
	}
	return r
}

// Missing returns the name of the first missing disk, or "" if no disk is missing. A root that no
// machine has used yet is allowed to be missing.
func (f Folder) Missing(d store.Disks) string {
	names := slices.Concat(d.Baseline, d.Volume)
	if len(d.Root) > 1 || !f.Blocks {
		names = append(names, d.Root...)
	}
	return f.MissingOf(names)
}

// MissingOf returns the first name that does not exist in the folder, or "" if all exist.
func (f Folder) MissingOf(names []string) string {
	for _, n := range names {
		if _, err := os.Lstat(f.path(n)); err != nil {
			return n
		}
	}
	return ""
}

// flush flushes the names in the folder to disk.
func (f Folder) flush() error { return durable.Sync(f.Path) }
