package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/proctree"
	"github.com/pyro-mcp/pyro/internal/agent/spawn"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// execEnv starts processes in a [namespace]. If the init process of the namespace dies, the next
// call makes another namespace. The processes are lost in this case, but no files.
type execEnv struct {
	abilities Abilities
	groups    *groups  // nil without Abilities.Cgroups
	score     *os.File // the agent's own /proc/self/oom_score_adj; nil without Abilities.OOMScore

	mu       sync.Mutex
	ns       *namespace
	previous *namespace            // the namespace before ns; a call might still use its root.
	rooted   bool                  // the root is mounted.
	own      bool                  // the machine's identity is in the root, or will be written there by Renew.
	volume   *volume.Volume        // nil if it is not mounted.
	identity *agentv1.RenewRequest // request of the last Renew.
	link     agent.Link            // the last configuration of eth0; the zero value if there is none.
	bootID   string                // the boot ID that processes see; empty for the kernel's.
	keyless  string                // ID of the last machine whose SSH host keys were removed.
	quiesced bool
	frozen   []string // mount points of the frozen file systems
}

// namespace contains the user's processes. It is a PID namespace together with a mount namespace.
// Its root is the environment.
type namespace struct {
	root   *os.File
	thread *agent.Thread // starts the processes of the namespace
	init   *spawn.Process
	gone   chan struct{} // closed when init has died
	ended  sync.Once
}

var _ agent.ExecEnv = (*execEnv)(nil)

// newExecEnv creates an execEnv without a namespace. rooted means that the root is already mounted.
func newExecEnv(abilities Abilities, rooted bool) (e *execEnv, err error) {
	e = &execEnv{abilities: abilities, rooted: rooted, own: rooted}
	if abilities.Cgroups {
		if e.groups, err = newGroups(cgroups, abilities.MaxProcesses); err != nil {
			return nil, err
		}
	}
	if !abilities.OOMScore {
		return e, nil
	}
	if e.score, err = os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0); err != nil {
		return nil, err
	}
	return e, e.protect()
}

// Values of oom_score_adj. Child processes inherit the value of their parent.
const (
	neverKilled = "-1000"
	killed      = "0"
)

// protect excludes the agent from the OOM killer, and also the processes that it starts from now
// on.
func (e *execEnv) protect() error { return e.rate(neverKilled) }

func (e *execEnv) rate(score string) error {
	_, err := e.score.WriteAt([]byte(score), 0)
	return err
}

// current returns the namespace. If there is none or its init has died, current makes a new one.
func (e *execEnv) current() (*namespace, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.currentLocked()
}

func (e *execEnv) currentLocked() (*namespace, error) {
	switch {
	case e.quiesced:
		return nil, agent.ErrQuiesced
	case !e.rooted:
		return nil, agent.ErrNoRoot
	}
	if e.ns != nil {
		if !e.ns.dead() {
			return e.ns, nil
		}
		e.ns.ended.Do(e.ns.thread.Stop)
		if e.previous != nil {
			e.previous.root.Close()
		}
		e.previous, e.ns = e.ns, nil
	}
	volume, err := e.volumeMounted()
	if err != nil {
		return nil, err
	}
	n, err := newNamespace(volume, e.abilities.Devices)
	if err != nil {
		return nil, fmt.Errorf("make the namespace of processes: %w", err)
	}
	if e.bootID != "" {
		if err := n.thread.Do(func() error { return mountBootID(e.bootID) }); err != nil {
			return nil, errors.Join(fmt.Errorf("renew the boot id: %w", err), n.end(context.Background()))
		}
	}
	e.ns = n
	return n, nil
}

// dead reports whether the init of the namespace has died.
func (n *namespace) dead() bool {
	select {
	case <-n.gone:
		return true
	default:
		return false
	}
}

// newNamespace creates a namespace. volume means that the volume is mounted, so that the namespace
// includes it.
func newNamespace(volume, makeNodes bool) (*namespace, error) {
	n := &namespace{gone: make(chan struct{})}
	var err error
	if n.thread, err = agent.NewThread(func() error { return enter(volume, makeNodes) }); err != nil {
		return nil, err
	}
	err = n.thread.Do(func() (err error) {
		if n.init, err = startInit(); err != nil {
			return err
		}
		go func() {
			n.init.Wait()
			close(n.gone)
		}()
		n.root, err = os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
		return err
	})
	if err != nil {
		n.thread.Stop()
		return nil, err
	}
	return n, nil
}

// enter prepares the calling thread to start the user's processes.
func enter(volume, makeNodes bool) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, userSlack, 0, 0, 0); err != nil && err != unix.EINVAL { // gVisor does not support timer slack
		return os.NewSyscallError("prctl", err)
	}
	return enterEnvironment(volume, makeNodes)
}

// Root returns a descriptor of the environment's root folder, as processes see it with all mounts.
func (e *execEnv) Root() (int, error) {
	n, err := e.current()
	if err != nil {
		return -1, err
	}
	return int(n.root.Fd()), nil
}

// Do calls f in the namespace. The OOM killer can kill processes that f starts, but never the
// agent.
func (e *execEnv) Do(f func() error) error {
	n, err := e.current()
	if err != nil {
		return err
	}
	if e.score == nil {
		return n.thread.Do(f)
	}
	return n.thread.Do(func() error {
		if err := e.rate(killed); err != nil {
			return err
		}
		err := f()
		return errors.Join(err, e.protect())
	})
}

// Start starts a process.
func (e *execEnv) Start(path string, argv []string, attr *os.ProcAttr) (agent.Process, error) {
	started, err := spawn.Start(path, argv, attr, openFiles)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// Group creates a group. It uses a cgroup if the agent has Abilities.Cgroups, and otherwise
// searches /proc.
func (e *execEnv) Group() (agent.Group, error) {
	if e.groups == nil {
		return treeGroup{proctree.NewGroup(os.Getpid())}, nil
	}
	return e.groups.take()
}

// treeGroup finds its processes among the descendants of the agent. Orphans become children of the
// init of the namespace, which is a child of the agent.
type treeGroup struct{ proctree.Group }
