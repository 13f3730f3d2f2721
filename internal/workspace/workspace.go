// Package workspace implements workspaces: their lifecycle, files, snapshots and history.
//
// The database (internal/store) contains the record of a workspace. The workspace's folder
// (internal/storage) contains its files. A workspace runs if its supervisor runs
// (internal/supervisor/remote).
//
// A process that changes a workspace locks it. Each change takes effect in one database
// transaction. Work before the transaction can be discarded. The next process can repeat work after
// it. So a process can be killed at any time.
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
	"sync"
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

// Manager manages all workspaces in a state folder. It is safe for concurrent use, even by several
// processes.
type Manager struct {
	Dirs         dirs.Dirs
	Store        *store.Store
	Environments *environment.Store
	Drivers      func() (*isolation.Drivers, error)
	Program      func() (string, error) // returns the path of the pyro program, which runs supervisors

	// PortChanged is called after a resume for each port of the host that is not as wanted. It can
	// be nil.
	PortChanged func(id, service string, p store.Port)
}

// Open returns the manager of the workspaces in d, whose paths must be absolute. program is the
// path of the pyro program; if it is empty, [dirs.Program] finds the program. If a program is
// missing, the operations that need it return an error. Open itself creates nothing. The caller
// must close Store.
func Open(d dirs.Dirs, program string) *Manager {
	m := &Manager{Dirs: d, Store: store.Open(d.State), Environments: environment.Open(d)}
	m.Program = sync.OnceValues(func() (string, error) { return dirs.Program(program) })
	m.Drivers = sync.OnceValues(func() (*isolation.Drivers, error) {
		path, _ := m.Program()
		return isolation.New(d, m.Environments, path)
	})
	return m
}

// State is the state of a workspace.
type State string

// The states of workspaces and machines.
const (
	Created State = "created" // it was never started; only for machines of [store.KindVM]
	Started State = "started"
	Stopped State = "stopped"
	Paused  State = "paused"  // its machine was saved; the next operation resumes it.
	Damaged State = "damaged" // a part is missing; it can only be deleted.
)

// Workspace describes a workspace at the time of the call.
type Workspace struct {
	store.Workspace
	State       State
	StateReason string       // why it is stopped, paused or damaged.
	Ports       []store.Port // ports that its services publish.
}

// features returns the features of the driver that runs a workspace.
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

// newID returns a random ID.
func newID(kind store.Kind) string {
	var b [6]byte
	rand.Read(b[:])
	prefix := store.WorkspacePrefix
	if kind == store.KindVM {
		prefix = store.VMPrefix
	}
	return prefix + hex.EncodeToString(b[:])
}

// checkID returns an error if a text can't be an ID. It must be called before the text becomes part
// of a path.
func checkID(id string) error {
	if id == "" || len(id) > 63 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fault.New(fault.NotFound, "find workspace", fault.Printable(id[:min(len(id), 80)]), "no workspace has this ID or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return nil
}

func (m *Manager) folder(id string) remote.Folder {
	return remote.Folder(filepath.Join(m.Dirs.Workspaces(), id))
}

// disks describes the folder of a workspace's disks.
func (m *Manager) disks(w store.Workspace) (storage.Folder, error) {
	features, err := m.features(w.Spec)
	return remote.DisksOf(m.Dirs, m.folder(w.ID), features.BlockDisks, w.Spec), err
}

// lock waits until it has locked a workspace. All changes need this lock.
func (m *Manager) lock(ctx context.Context, id string) (*flock.Lock, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	lock, err := flock.Take(ctx, filepath.Join(string(m.folder(id)), remote.LifecycleLock), flock.Exclusive, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "find workspace", id, "no workspace has this ID or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return lock, fault.Wrap(err, "lock workspace", id)
}

// record returns the record of a workspace or machine of the given kind.
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

// Get describes a workspace.
func (m *Manager) Get(ctx context.Context, kind store.Kind, id string) (Workspace, error) {
	w, err := m.record(ctx, kind, id)
	if err != nil {
		return Workspace{}, err
	}
	return m.now(ctx, w), nil
}

// List returns all workspaces of a kind, the most recently active first.
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

// now returns w with its current state, which is not stored. It also returns why the workspace does
// not run.
func (m *Manager) now(ctx context.Context, w store.Workspace) Workspace {
	folder := m.folder(w.ID)
	switch {
	case folder.Alive():
		return m.started(ctx, w)
	case w.Starts == 0:
		return Workspace{Workspace: w, State: Created}
	}
	reason := m.lastEnd(ctx, folder)
	if again, err := m.Store.Workspace(ctx, w.ID); err == nil { // a supervisor that has just ended might have replaced disks or paused the workspace
		w = again
	}
	if missing := m.missing(w); missing != "" {
		return Workspace{Workspace: w, State: Damaged, StateReason: missing + " is missing"}
	}
	state := m.stateOf(w)
	if state == Started {
		return m.started(ctx, w)
	}
	return Workspace{Workspace: w, State: state, StateReason: reason}
}

// stateOf returns the state of a workspace that had no machine just before its record w was read.
// If the record has no checkpoint, stateOf looks for a machine again: a supervisor that resumes a
// machine first becomes visible and then removes the checkpoint from the record.
func (m *Manager) stateOf(w store.Workspace) State {
	switch {
	case w.Disks.Checkpoint != "":
		return Paused
	case m.folder(w.ID).Alive():
		return Started
	}
	return Stopped
}

// started describes a workspace that runs.
func (m *Manager) started(ctx context.Context, w store.Workspace) Workspace {
	now := Workspace{Workspace: w, State: Started}
	if w.Spec.Network == store.NetworkPublished {
		now.Ports = m.ports(ctx, w)
	}
	return now
}

// endPatience is how long to wait until the supervisor of an ended machine has recorded the reason.
const endPatience = 300 * time.Millisecond

// lastEnd returns why a workspace has no running machine. It waits for a supervisor that is still
// ending.
func (m *Manager) lastEnd(ctx context.Context, folder remote.Folder) string {
	patient, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if folder.AwaitReason(patient) != nil {
		return "its machine ended"
	}
	return folder.LastEnd().Reason
}

// missing returns the name of a needed file that is missing, or an empty string.
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

// connect connects to the machine of a workspace. It resumes a paused workspace.
func (m *Manager) connect(ctx context.Context, kind store.Kind, id string) (*remote.Client, store.Workspace, error) {
	w, err := m.record(ctx, kind, id)
	if err != nil {
		return nil, w, err
	}
	c, err := remote.Dial(ctx, m.folder(id))
	for range maxResumes {
		if fault.KindOf(err) != fault.Precondition {
			break
		}
		// The workspace might have been paused since then.
		if now, again := m.Store.Workspace(ctx, id); again != nil || now.Disks.Checkpoint == "" {
			return nil, w, cmp.Or(again, err)
		}
		if _, err = m.Start(ctx, kind, id, nil); err != nil {
			return nil, w, err
		}
		c, err = remote.Dial(ctx, m.folder(id))
	}
	return c, w, err
}

// maxResumes limits how often connect resumes a workspace that other processes pause again.
const maxResumes = 3

// sweepAge is the minimum age at which Sweep removes a folder without a final name. The process
// that created a younger folder might be about to lock it.
const sweepAge = time.Minute

// Sweep removes the remains of creations and deletions that were interrupted. It returns the number
// of removed folders.
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

// sweep removes a folder if it is orphaned. It reports whether it removed the folder.
func (m *Manager) sweep(ctx context.Context, e fs.DirEntry) (bool, error) {
	if fresh(e) {
		return false, nil
	}
	folder := remote.Folder(filepath.Join(m.Dirs.Workspaces(), e.Name()))
	lock, err := flock.Try(filepath.Join(string(folder), remote.LifecycleLock), flock.Exclusive)
	if err != nil {
		return false, nil // the folder is locked or gone
	}
	defer lock.Release()
	if orphaned, err := m.orphaned(ctx, e.Name()); !orphaned {
		return false, err
	}
	return true, folder.Remove(ctx)
}

// fresh reports whether a folder is too young for Sweep, or no longer exists.
func fresh(e fs.DirEntry) bool {
	info, err := e.Info()
	return err != nil || strings.HasPrefix(e.Name(), unlocked) && time.Since(info.ModTime()) < sweepAge
}

// orphaned reports whether an unlocked folder has neither a record nor a running process.
func (m *Manager) orphaned(ctx context.Context, name string) (bool, error) {
	if checkID(name) == nil {
		if _, err := m.Store.Workspace(ctx, name); fault.KindOf(err) != fault.NotFound {
			return false, err
		}
	}
	return !remote.Folder(filepath.Join(m.Dirs.Workspaces(), name)).Running(), nil
}

// Orphans returns the names of the folders that Sweep would remove. It does not change them.
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
