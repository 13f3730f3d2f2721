// Package host is the agent of host_compat. It starts processes on the host itself, without
// isolation.
package host

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/proctree"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// execEnv is the host as an agent.ExecEnv.
type execEnv struct {
	root   *os.File
	thread *agent.Thread
	folder string // folder of the volume, or empty if there is none

	mu       sync.Mutex
	volume   *volume.Volume // nil if it is not mounted
	quiesced bool
}

var _ agent.ExecEnv = (*execEnv)(nil)

// newExecEnv opens the host's root. folder is the folder of the volume, or empty if there is none.
func newExecEnv(folder string) (*execEnv, error) {
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	thread, err := agent.NewThread(func() error { return nil })
	if err != nil {
		root.Close()
		return nil, err
	}
	return &execEnv{root: root, thread: thread, folder: folder}, nil
}

// Root returns a descriptor of the host's root folder.
func (e *execEnv) Root() (int, error) {
	if err := e.ready(); err != nil {
		return -1, err
	}
	return int(e.root.Fd()), nil
}

func (e *execEnv) ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.quiesced {
		return agent.ErrQuiesced
	}
	return nil
}

// Do calls f on the thread that starts processes.
func (e *execEnv) Do(f func() error) error {
	return e.thread.Do(func() error {
		if err := e.ready(); err != nil {
			return err
		}
		return f()
	})
}

// Renew changes nothing, because the clock, names and network belong to the host.
func (e *execEnv) Renew(m *agentv1.RenewRequest) error {
	if m.Network != nil {
		return fmt.Errorf("%w: host_compat has no network of its own", errors.ErrUnsupported)
	}
	return nil
}

// end stops the thread. The kernel then kills the processes that the thread has started. The reaper
// kills all others. end does not close the root, because calls may still use it. The process exits
// now.
func (e *execEnv) end() { e.thread.Stop() }

// Group creates a group of processes among the descendants of the agent's reaper.
func (e *execEnv) Group() (agent.Group, error) {
	return group{proctree.NewGroup(os.Getppid())}, nil
}

type group struct{ proctree.Group }

// Prepare also makes the kernel kill the process when the agent's thread ends.
func (g group) Prepare(attr *os.ProcAttr) {
	g.Group.Prepare(attr)
	attr.Sys.Pdeathsig = syscall.SIGKILL
	// A process that runs as the same user needs no privilege. If it runs as another user, the
	// kernel decides whether that is allowed.
	if c := attr.Sys.Credential; int(c.Uid) == os.Geteuid() && (c.Uid != 0 || int(c.Gid) == os.Getegid()) {
		attr.Sys.Credential = nil
	}
}
