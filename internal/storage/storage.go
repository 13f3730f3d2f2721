// Package storage keeps what of workspaces outlives their machines: the volume, which is seen at /workspace, and what was changed of the root.
//
// It has two kinds behind one contract. Block storage is images in layers: the lowest of a volume is a raw ext4 image, all others are qcow2, and only the
// highest is written, so a snapshot, a reset and a fork cost a new empty layer whatever the layers below hold. Tree storage is folders, and each of these
// costs a copy, which shares its blocks where the file system can.
//
// A [Folder] has what belongs to one workspace. Everything in it has a name of its own and is written once, whole and flushed, before it is named in the
// database (internal/store); what the database does not name is nobody's, and Sweep removes it. So a process that dies between any two steps leaves the old or
// the new state. A fork's folder has the layers of its source as hard links: none is ever written again, and each goes with its last name.
//
// The caller sees to it that a folder is used by one operation at a time, but for what Folder says may run beside a machine.
package storage

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Folder is where the disks of one workspace are.
type Folder struct {
	Path   string // made by Create and Fork where it is missing
	Blocks bool   // images, else trees
	Shared string // a folder on the same file system for what all workspaces begin with
	Bytes  int64  // size of the volume's file system; 0: machine.DefaultVolumeBytes, and no limit for a seed in trees
}

// Seed writes a tar of what a volume is to hold at first: clean, all of it root's, names relative.
type Seed func(ctx context.Context, to io.Writer) error

// nothing is the seed of an empty volume.
func nothing(_ context.Context, to io.Writer) error { return tar.NewWriter(to).Close() }

// into has take read what the seed gives. Where the seed fails, its own error is what is given.
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

// kind is the way of one of the two kinds of storage.
type kind interface {
	create(ctx context.Context, seed Seed) (store.Disks, error)
	prepare(ctx context.Context, d store.Disks, whole bool) (Snapshot, error)
	take(ctx context.Context, s Snapshot) error
	reset(ctx context.Context, from, of store.Disks, whole bool) (store.Disks, error)
	goOn(ctx context.Context, d store.Disks) (store.Disks, error)
	adopt(ctx context.Context, source Folder, d store.Disks) error
	flatten(ctx context.Context, d store.Disks) (volume string, err error)
	size(d, others store.Disks) int64
}

func (f Folder) kind() kind {
	if f.Blocks {
		return blocks{f}
	}
	return trees{f}
}

// Create makes the disks of a new workspace. seed may be nil: then the volume is empty. The error is of kind Exhausted if the seed does not fit the volume.
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

// Machine is the storage of a machine on these disks.
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

// Snapshot is one that is being taken.
type Snapshot struct {
	Kept store.Disks // what it keeps
	Next store.Disks // what the workspace works on from then on

	// The new layers of block storage, empty: a running machine is given them (machine.Layerer) once Next is in the database, so that at no moment something
	// is written to a layer that the database does not have.
	RootLayer, VolumeLayer string

	from store.Disks
}

// RootTaken says that the root is in Kept already: Take leaves it alone.
func (s *Snapshot) RootTaken() { s.from.Root = nil }

// Prepare begins a snapshot of disks. It may run beside the machine.
func (f Folder) Prepare(ctx context.Context, d store.Disks, whole bool) (Snapshot, error) {
	s, err := f.kind().prepare(ctx, d, whole)
	if err == nil {
		err = f.flush()
	}
	s.from = d
	return s, fault.Wrap(err, "prepare snapshot", "")
}

// Take copies what has to be copied for a snapshot, nothing in block storage. Nothing may write to the disks meanwhile: the machine is paused, or there is none.
func (f Folder) Take(ctx context.Context, s Snapshot) error {
	err := f.kind().take(ctx, s)
	if err == nil {
		err = f.flush()
	}
	return fault.Wrap(err, "take snapshot", "")
}

// NewRoot is a path for what a machine that keeps its root (machine.RootKeeper) has changed of it, and the disks with it.
func (f Folder) NewRoot(d store.Disks) (path string, next store.Disks) {
	next = d
	next.Root = []string{name("root", ".tar")}
	return f.path(next.Root[0]), next
}

// Reset makes disks that begin as those of a snapshot, or of a baseline where from is the disks of the workspace and whole is false. The old ones stay until
// they are swept.
func (f Folder) Reset(ctx context.Context, from, of store.Disks, whole bool) (store.Disks, error) {
	d, err := f.kind().reset(ctx, from, of, whole)
	if err == nil {
		err = f.flush()
	}
	return d, fault.Wrap(err, "reset disks", "")
}

// Fork makes the disks of a new workspace, in this folder, that begins as a snapshot of another, or as its present state where that has no machine.
func (f Folder) Fork(ctx context.Context, source Folder, d store.Disks, whole bool) (store.Disks, error) {
	if err := os.MkdirAll(f.Path, 0o700); err != nil {
		return store.Disks{}, fault.Wrap(err, "fork disks", f.Path)
	}
	if !whole {
		d.Root = nil
	}
	d.Baseline = nil
	if err := f.kind().adopt(ctx, source, d); err != nil {
		return store.Disks{}, fault.Wrap(err, "fork disks", source.Path)
	}
	base := d
	base.Baseline = d.Volume
	if d.Memory != "" { // it goes on where that one stood, on disks that are as they were then
		err := f.adoptMemory(ctx, source, d.Memory)
		if err == nil {
			err = f.flush()
		}
		return base, fault.Wrap(err, "fork disks", source.Path)
	}
	next, err := f.kind().reset(ctx, base, base, whole)
	if err == nil {
		err = f.flush()
	}
	return next, fault.Wrap(err, "fork disks", source.Path)
}

// Sweep removes what none of the disks named has.
func (f Folder) Sweep(ctx context.Context, keep ...store.Disks) error {
	return fault.Wrap(f.each(keep, func(name string) error { return tree.Remove(ctx, f.path(name)) }), "sweep disks", f.Path)
}

// SetAside gives what Sweep would remove names that nobody uses, which costs nothing whatever it holds. RemoveOld removes it, and may do so meanwhile.
func (f Folder) SetAside(_ context.Context, keep ...store.Disks) error {
	return fault.Wrap(f.each(keep, func(old string) error {
		if err := os.Rename(f.path(old), f.path(name(oldDisk, ""))); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}), "set disks aside", f.Path)
}

// RemoveOld removes what was set aside. It may run beside everything else.
func (f Folder) RemoveOld(ctx context.Context) error {
	return fault.Wrap(f.each(nil, func(name string) error {
		if !strings.HasPrefix(name, oldDisk) {
			return nil
		}
		return tree.Remove(ctx, f.path(name))
	}), "remove old disks", f.Path)
}

// oldDisk begins the names of what was set aside.
const oldDisk = "old"

// each does something with all in the folder but the disks named, up to the first error.
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
		for _, n := range append(slices.Concat(d.Volume, d.Root, d.Baseline), d.Memory) {
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

// Size is what the disks take on the host beside others, in bytes: what a snapshot costs over what is there anyway.
func (f Folder) Size(d, others store.Disks) int64 { return f.kind().size(d, others) }

// Missing names what of the disks is not there, in words, or nothing. A root that no machine has started on yet need not be.
func (f Folder) Missing(d store.Disks) string {
	names := slices.Concat(d.Baseline, d.Volume)
	if len(d.Root) > 1 || !f.Blocks {
		names = append(names, d.Root...)
	}
	return f.MissingOf(names)
}

// MissingOf gives the first of some names of disks that is not there, or nothing.
func (f Folder) MissingOf(names []string) string {
	for _, n := range names {
		if _, err := os.Lstat(f.path(n)); err != nil {
			return n
		}
	}
	return ""
}

// path is that of a name of a disk. Names come from the database: none leads out of the folder.
func (f Folder) path(name string) string {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
		return filepath.Join(f.Path, "unusable")
	}
	return filepath.Join(f.Path, name)
}

// Paths are those of names, in their order.
func (f Folder) paths(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, f.path(n))
	}
	return all
}

// Path is that of one disk by its name.
func (f Folder) DiskPath(name string) string { return f.path(name) }

// flush makes the names in the folder durable.
func (f Folder) flush() error { return durable.Sync(f.Path) }

// name makes one that nothing else has, in any workspace.
func name(what, suffix string) string {
	var random [8]byte
	rand.Read(random[:])
	return what + "-" + hex.EncodeToString(random[:]) + suffix
}

// top is what is written of a disk.
func top(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

// over gives layers with one more on top, without touching the slice that others have.
func over(names []string, layer string) []string {
	return append(slices.Clone(names), layer)
}
