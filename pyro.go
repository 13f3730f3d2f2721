package pyro

import (
	"log/slog"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/version"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Options are the folders and the program that pyro uses. Most programs use the zero value.
type Options struct {
	// CacheDir is the folder for environments, kernels and templates. pyro can create all of them
	// again. The default is PYRO_CACHE_DIR, or pyro in the XDG cache folder.
	CacheDir string
	// StateDir is the folder for workspaces and running machines. The default is PYRO_STATE_DIR, or
	// pyro in the XDG state folder.
	StateDir string
	// Program is the path of the command pyro. Each running workspace has a process that runs this
	// command. The default is the value of PYRO_PROGRAM. If this variable is not set, the default
	// is the running program if it is named pyro. Otherwise the default is the program pyro in the
	// folder of the running program or in PATH. RunInVM does not need the command.
	Program string
	// PortChanged is called after a call has resumed a workspace, for each published port that
	// another program took during the pause. It must return quickly. It can be nil.
	PortChanged func(id, service string, p PublishedPort)
}

// Pyro gives access to all machines in its folders. It is safe for concurrent use. Several Pyro
// values, even in different processes, can use the same folders at the same time.
type Pyro struct {
	workspaces *workspace.Manager
}

// New returns a Pyro with the given options. It starts no process and creates no file. If a process
// was killed while it changed a folder of the host, New completes or undoes that change.
func New(o Options) (*Pyro, error) {
	d, err := dirs.Of(o.CacheDir, o.StateDir)
	if err != nil {
		return nil, &Error{Op: "open pyro", Kind: fault.Precondition, Err: err}
	}
	w := workspace.Open(d, o.Program)
	if err := w.Journal().Recover(); err != nil {
		slog.Warn("an interrupted export or pull can't be recovered", "error", err)
	}
	if o.PortChanged != nil {
		w.PortChanged = func(id, service string, p store.Port) { o.PortChanged(id, service, publishedPorts([]store.Port{p})[0]) }
	}
	return &Pyro{w}, nil
}

// Close closes the database of p. Machines and workspaces keep running. Close is idempotent.
func (p *Pyro) Close() error { return p.workspaces.Store.Close() }

// Version returns the version of this build, which follows SemVer.
func Version() string { return version.String() }
