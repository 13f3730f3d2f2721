// Package host is the place of an agent that runs on the host itself: processes are the host's own, and nothing isolates them.
package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Place is the host.
type Place struct {
	root   *os.File
	thread *agent.Thread
	folder string // of the volume; empty: there is none

	mu       sync.Mutex
	volume   *volume.Volume // nil: it is not mounted
	quiesced bool
}

var _ agent.Place = (*Place)(nil)

// newPlace makes the place, whose volume is in a folder, or nowhere.
func newPlace(folder string) (*Place, error) {
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	thread, err := agent.NewThread(func() error { return nil })
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Place{root: root, thread: thread, folder: folder}, nil
}

// Root is the host's root folder.
func (p *Place) Root() (int, error) {
	if err := p.ready(); err != nil {
		return -1, err
	}
	return int(p.root.Fd()), nil
}

func (p *Place) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiesced {
		return agent.ErrQuiesced
	}
	return nil
}

// Do calls f.
func (p *Place) Do(f func() error) error {
	return p.thread.Do(func() error {
		if err := p.ready(); err != nil {
			return err
		}
		return f()
	})
}

// Renew changes nothing: the clock, the name and the network are the host's.
func (p *Place) Renew(m *agentv1.RenewRequest) error {
	if m.Network != nil {
		return fmt.Errorf("%w: a network of its own, where the machine is the host", errors.ErrUnsupported)
	}
	return nil
}

// close gives the place back. What was started goes on: ending it is the reaper's business.
func (p *Place) close() error {
	p.thread.Stop()
	return p.root.Close()
}

// Group makes a group.
func (p *Place) Group() (agent.Group, error) {
	var id [8]byte
	rand.Read(id[:])
	return &group{mark: markName + "=" + hex.EncodeToString(id[:])}, nil
}

// markName is set in the environment of what an exec starts, so that it is known when it has left its parent and its session.
const markName = "PYRO_EXEC"

// group is what one exec started, as far as a host can tell: what descends from the first process, is in its session, or has its mark.
type group struct{ mark string }

func (g *group) Prepare(attr *os.ProcAttr) {
	attr.Env = append(attr.Env, g.mark)
	attr.Sys.Pdeathsig = syscall.SIGKILL
	// Who we are needs no privilege to stay so. Of another user, the kernel decides whether we may become it.
	if c := attr.Sys.Credential; int(c.Uid) == os.Geteuid() && (c.Uid != 0 || int(c.Gid) == os.Getegid()) {
		attr.Sys.Credential = nil
	}
}

func (g *group) Kill(leader int) error {
	return killAll(os.Getppid(), func(all table, pid int) bool {
		for range deepest {
			if pid == 0 || pid == os.Getpid() {
				return false
			}
			if pid == leader || all[pid].session == leader || marked(pid, g.mark) {
				return true
			}
			pid = all[pid].parent
		}
		return false
	})
}

func (g *group) PID(pid int) int   { return pid }
func (g *group) OutOfMemory() bool { return false }
func (g *group) Release()          {}
