// Package workspace is what a workspace is and does: its life, its files, its snapshots, its history.
//
// What a workspace is stands in the database (internal/store), what it holds in its folder (internal/storage), and whether it runs is whether its supervisor
// does (internal/supervisor/remote). Whoever changes what it is holds its lock. Every change becomes true by one transaction of the database: what comes before
// it can be thrown away, what comes after it can be done again by whoever comes next. So a process may be killed anywhere.
package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Manager is all workspaces of one state folder. It is safe for concurrent use, in many processes at once.
type Manager struct {
	Dirs         dirs.Dirs
	Store        *store.Store
	Environments *environment.Store
	Drivers      func() (*isolation.Drivers, error)
	Program      func() (string, error) // the pyro program, which supervisors are
}

// State says whether a workspace can be used.
type State string

// The states.
const (
	Created State = "created" // it was never started: a machine of [store.KindVM]
	Started State = "started"
	Stopped State = "stopped"
	Paused  State = "paused"  // its machine was saved, and goes on with whatever is done next with it
	Damaged State = "damaged" // something of it is missing: it can only be deleted
)

// Workspace is one as it is now.
type Workspace struct {
	store.Workspace
	State       State
	StateReason string       // why it is stopped or damaged
	Ports       []store.Port // that its services publish
}

// features are those of the machines of a workspace.
func (m *Manager) features(spec store.Spec) (machine.Features, error) {
	drivers, err := m.Drivers()
	if err != nil {
		return machine.Features{}, err
	}
	d, err := drivers.Of(machine.Isolation(spec.Isolation))
	if err != nil {
		return machine.Features{}, err
	}
	return d.Features(), nil
}

// newID makes the id of a workspace: random, so that no two of them are ever the same.
func newID(kind store.Kind) string {
	var b [6]byte
	rand.Read(b[:])
	prefix := store.WorkspacePrefix
	if kind == store.KindVM {
		prefix = store.VMPrefix
	}
	return prefix + hex.EncodeToString(b[:])
}

// checkID refuses what is no id before it becomes part of a path.
func checkID(id string) error {
	if id == "" || len(id) > 63 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fault.New(fault.NotFound, "find workspace", fault.Printable(id[:min(len(id), 80)]), "there is none of this id or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return nil
}

func (m *Manager) folder(id string) remote.Folder {
	return remote.Folder(filepath.Join(m.Dirs.Workspaces(), id))
}

// disks are those of a workspace.
func (m *Manager) disks(w store.Workspace) (storage.Folder, error) {
	features, err := m.features(w.Spec)
	return remote.DisksOf(m.Dirs, m.folder(w.ID), features.BlockDisks, w.Spec), err
}

// lock keeps others from changing what a workspace is, waiting for whoever does now.
func (m *Manager) lock(ctx context.Context, id string) (*flock.Lock, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	lock, err := flock.Take(ctx, filepath.Join(string(m.folder(id)), remote.LifecycleLock), flock.Exclusive, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "find workspace", id, "there is none of this id or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return lock, fault.Wrap(err, "lock workspace", id)
}

// record gives what is known of a workspace, or of a machine where kind says so.
func (m *Manager) record(ctx context.Context, kind store.Kind, id string) (store.Workspace, error) {
	if err := checkID(id); err != nil {
		return store.Workspace{}, err
	}
	w, err := m.Store.Workspace(ctx, id)
	if err == nil && w.Kind != kind {
		return w, fault.New(fault.NotFound, "find "+string(kind), id, "it is a %s", w.Kind)
	}
	return w, err
}

// Get tells what a workspace is now.
func (m *Manager) Get(ctx context.Context, kind store.Kind, id string) (Workspace, error) {
	w, err := m.record(ctx, kind, id)
	if err != nil {
		return Workspace{}, err
	}
	return m.now(ctx, w), nil
}

// List gives all of a kind, the one that was last active first.
func (m *Manager) List(ctx context.Context, kind store.Kind) ([]Workspace, error) {
	records, err := m.Store.Workspaces(ctx, kind)
	if err != nil {
		return nil, err
	}
	var all []Workspace
	for _, w := range records {
		all = append(all, m.now(ctx, w))
	}
	return all, nil
}

// now finds out what can't be stored: whether it runs, and why not.
func (m *Manager) now(ctx context.Context, w store.Workspace) Workspace {
	folder := m.folder(w.ID)
	switch {
	case folder.Alive():
		now := Workspace{Workspace: w, State: Started}
		if w.Spec.Network == store.NetworkPublished {
			now.Ports = m.ports(ctx, w)
		}
		return now
	case w.Starts == 0:
		return Workspace{Workspace: w, State: Created}
	}
	reason := m.lastEnd(ctx, folder)
	if again, err := m.Store.Workspace(ctx, w.ID); err == nil { // a supervisor that has ended since the record was read may have replaced disks, or paused it
		w = again
	}
	if missing := m.missing(w); missing != "" {
		return Workspace{Workspace: w, State: Damaged, StateReason: missing + " is missing"}
	}
	if w.Disks.Memory != "" {
		return Workspace{Workspace: w, State: Paused, StateReason: reason}
	}
	return Workspace{Workspace: w, State: Stopped, StateReason: reason}
}

// endPatience is how long a supervisor whose machine has ended is waited for, to say why.
const endPatience = 300 * time.Millisecond

// lastEnd tells why a workspace that has no machine has none. Its supervisor may still be there.
func (m *Manager) lastEnd(ctx context.Context, folder remote.Folder) string {
	patient, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if folder.AwaitReason(patient) != nil {
		return "its machine ended"
	}
	return folder.LastEnd().Reason
}

// missing names what a workspace can't do without and has not.
func (m *Manager) missing(w store.Workspace) string {
	disks, err := m.disks(w)
	if err != nil {
		return ""
	}
	if n := disks.Missing(w.Disks); n != "" {
		return "disk " + n
	}
	return ""
}

// Update changes name and labels.
func (m *Manager) Update(ctx context.Context, id string, u Update) (Workspace, error) {
	if err := u.check(); err != nil {
		return Workspace{}, err
	}
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return Workspace{}, err
	}
	if err := m.Store.Rename(ctx, id, u.apply); err != nil {
		return Workspace{}, err
	}
	return m.Get(ctx, store.KindWorkspace, id)
}

// connect connects to the machine of a workspace that runs, or has it go on where it is paused.
func (m *Manager) connect(ctx context.Context, kind store.Kind, id string) (*remote.Client, store.Workspace, error) {
	w, err := m.record(ctx, kind, id)
	if err != nil {
		return nil, w, err
	}
	c, err := remote.Dial(ctx, m.folder(id))
	for range maxGoOns {
		if fault.KindOf(err) != fault.Precondition {
			break
		}
		// It may have been paused since the record was read.
		if now, again := m.Store.Workspace(ctx, id); again != nil || now.Disks.Memory == "" {
			return nil, w, cmp.Or(again, err)
		}
		if _, err = m.Start(ctx, kind, id, nil); err != nil {
			return nil, w, err
		}
		c, err = remote.Dial(ctx, m.folder(id))
	}
	return c, w, err
}

// maxGoOns bounds how often a workspace is made to go on that somebody else pauses at once.
const maxGoOns = 3

// sweepAge is how old a folder without a name of its own must be to be removed: younger, its maker may be about to lock it.
const sweepAge = time.Minute

// Sweep removes what creations and deletions that were killed left behind.
func (m *Manager) Sweep(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(m.Dirs.Workspaces())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fault.Wrap(err, "sweep workspaces", m.Dirs.Workspaces())
	}
	swept := 0
	for _, e := range entries {
		gone, err := m.sweep(ctx, e)
		if err != nil {
			return swept, err
		}
		if gone {
			swept++
		}
	}
	return swept, nil
}

// sweep removes a folder that is nobody's, and tells whether it was.
func (m *Manager) sweep(ctx context.Context, e fs.DirEntry) (bool, error) {
	if fresh(e) {
		return false, nil
	}
	folder := remote.Folder(filepath.Join(m.Dirs.Workspaces(), e.Name()))
	lock, err := flock.Try(filepath.Join(string(folder), remote.LifecycleLock), flock.Exclusive)
	if err != nil {
		return false, nil // it has an owner, or is gone
	}
	defer lock.Release()
	if orphaned, err := m.orphaned(ctx, e.Name()); !orphaned {
		return false, err
	}
	return true, folder.Remove(ctx)
}

// fresh tells whether the maker of a folder may be about to lock it, or it is gone.
func fresh(e fs.DirEntry) bool {
	info, err := e.Info()
	return err != nil || strings.HasPrefix(e.Name(), unlocked) && time.Since(info.ModTime()) < sweepAge
}

// orphaned tells whether no record names a folder that nobody has locked, and nothing runs in it.
func (m *Manager) orphaned(ctx context.Context, name string) (bool, error) {
	if checkID(name) == nil {
		if _, err := m.Store.Workspace(ctx, name); fault.KindOf(err) != fault.NotFound {
			return false, err
		}
	}
	return !remote.Folder(filepath.Join(m.Dirs.Workspaces(), name)).Running(), nil
}

// Orphans names the folders that Sweep would remove. It changes nothing in them.
func (m *Manager) Orphans(ctx context.Context) (names []string, err error) {
	entries, err := os.ReadDir(m.Dirs.Workspaces())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, "look for orphaned workspaces", m.Dirs.Workspaces())
	}
	for _, e := range entries {
		held, err := flock.Held(filepath.Join(m.Dirs.Workspaces(), e.Name(), remote.LifecycleLock))
		if fresh(e) || held || err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		orphaned, err := m.orphaned(ctx, e.Name())
		if err != nil {
			return names, err
		}
		if orphaned {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
