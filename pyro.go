// Package pyro gives a program, an AI agent for one, a computer of its own on any Linux machine, in a fraction of a second: a virtual machine
// where there is hardware virtualisation, and where there is none gVisor, at the processor's own speed, or a virtual machine that is emulated.
//
// # Start here
//
// [New] opens pyro with the folders of the present user. [Pyro.RunInVM] starts a machine from an environment, runs one command in it and removes it:
//
//	p, err := pyro.New(pyro.Options{})
//	if err != nil {
//		return err
//	}
//	result, err := p.RunInVM(ctx, pyro.RunInVMRequest{Environment: "debian:12", Command: "uname -a"})
//	if err != nil {
//		return err
//	}
//	fmt.Print(result.Stdout)
//
// The first run on a host pulls the environment and makes ready what machines start from: a guest kernel and a saved machine, or an image for gVisor. That takes
// a minute or two and is told to [RunInVMRequest].Progress. From the second run on a machine starts in a fraction of a second.
//
// # Workspaces
//
// A workspace is a machine that persists: with an identity, a folder /workspace, the state in which it was created, which is its baseline, snapshots and a
// history. [Pyro.CreateWorkspace] makes one, of a folder or an archive of the host where that is wanted, and starts it; [Pyro.ExecWorkspace] runs commands in
// it. Its files are read, written, patched, synced, compared with the baseline and exported; it is stopped, started, reset, forked and deleted. It goes on when
// the program that made it ends. When its time to live is over it is stopped, and nothing of it is lost.
//
// # Environments
//
// An environment is a named, immutable image that machines start from: one of pyro's own, such as debian:12, or any OCI reference, such as alpine:3.20.
// See [Pyro.ListEnvironments], [Pyro.PullEnvironment], [Pyro.InspectEnvironment] and [Pyro.PruneEnvironments].
//
// # Isolation
//
// What stands between a machine and the host depends on the host: kvm where it is proved to work, else gvisor, a kernel in user space, else tcg, an emulated
// processor. [RunInVMRequest].Isolation asks for one of them. Every result names what it was. There is never a silent downgrade: a host that can't start what
// is asked for gives an error of kind [Unavailable], unless the request asks for no level and allows host_compat.
// [Pyro.Doctor] tells what a host can do and what mends what it can't.
//
// # Errors
//
// Every error has a kind, see [KindOf], and mostly a hint, see [HintOf]: a command or a step that mends it.
package pyro

import (
	"path/filepath"
	"sync"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/version"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Options say how pyro works. The zero value is right for most.
type Options struct {
	// CacheDir holds what can be made again: environments, kernels, templates. Default: PYRO_CACHE_DIR, else pyro below the XDG cache folder.
	CacheDir string
	// StateDir holds what is running. Default: PYRO_STATE_DIR, else pyro below the XDG state folder.
	StateDir string
	// Program is the command pyro, of which there is one process for each workspace that runs. Default: PYRO_PROGRAM, else this program where it is pyro, else
	// pyro in the folder of this program or in PATH. RunInVM needs none.
	Program string
}

// Pyro is the entry to everything. It is safe for concurrent use, and so are many in many processes on the same folders.
type Pyro struct {
	dirs       dirs.Dirs
	store      *environment.Store
	program    func() string // the command pyro, or ""
	drivers    func() (*isolation.Drivers, error)
	records    *store.Store
	workspaces *workspace.Manager
}

// New opens pyro. It starts and creates nothing.
func New(o Options) (*Pyro, error) {
	d := dirs.Dirs{Cache: o.CacheDir, State: o.StateDir}
	if d.Cache == "" || d.State == "" {
		byDefault, err := dirs.Default()
		if err != nil {
			return nil, &Error{Op: "open pyro", Kind: fault.Precondition, Err: err}
		}
		if d.Cache == "" {
			d.Cache = byDefault.Cache
		}
		if d.State == "" {
			d.State = byDefault.State
		}
	}
	for _, folder := range []*string{&d.Cache, &d.State} { // a supervisor works in another folder
		absolute, err := filepath.Abs(*folder)
		if err != nil {
			return nil, &Error{Op: "open pyro", Kind: fault.Precondition, Err: err}
		}
		*folder = absolute
	}
	p := &Pyro{dirs: d, store: environment.Open(d), records: store.Open(d.State)}
	program := sync.OnceValues(func() (string, error) { return dirs.Program(o.Program) })
	p.program = func() string { // that it is not there is told where it is needed
		path, _ := program()
		return path
	}
	p.drivers = sync.OnceValues(func() (*isolation.Drivers, error) { return isolation.New(d, p.store, p.program()) })
	p.workspaces = &workspace.Manager{
		Dirs: d, Store: p.records, Environments: p.store, Drivers: p.drivers,
		Program: program,
	}
	return p, nil
}

// Close gives back what p holds open. Machines and workspaces go on. Idempotent.
func (p *Pyro) Close() error { return p.records.Close() }

// Version is that of this build, by the rules of SemVer.
func Version() string { return version.String() }
