package guest

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/spawn"
)

// place is the namespace of the user's processes. When its keeper has died it is made again: the processes are gone, the files are not.
type place struct {
	ownKernel bool // which keeps the clock and the random pool
	groups    *groups
	score     *os.File // the agent's own /proc/self/oom_score_adj, where a kernel looks at it

	mu     sync.Mutex
	room   *room
	before *room // the life before, whose root a call may still be using
}

// room is one life of the namespace.
type room struct {
	root   *os.File
	thread *agent.Thread
	gone   chan struct{} // closed when the keeper has died
}

var _ agent.Place = (*place)(nil)

// newPlace makes the place, but for its room, which is made by the first call of now.
func newPlace(ownKernel bool) (*place, error) {
	least := int64(leastProcess)
	if !ownKernel {
		least = leastSandboxProcess
	}
	g, err := newGroups(cgroups, least)
	if err != nil {
		return nil, err
	}
	p := &place{ownKernel: ownKernel, groups: g}
	if !ownKernel {
		return p, nil // nothing inside is killed for want of memory
	}
	if p.score, err = os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0); err != nil {
		return nil, err
	}
	return p, p.protect()
}

// The kernel's ratings of what to kill first when memory is short. They are inherited.
const (
	neverKilled = "-1000"
	killed      = "0"
)

// protect keeps the agent, and what it starts from now on, from being killed when memory is short.
func (p *place) protect() error { return p.rate(neverKilled) }

func (p *place) rate(score string) error {
	_, err := p.score.WriteAt([]byte(score), 0)
	return err
}

// now gives the room as it is, or a new one.
func (p *place) now() (*room, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room != nil {
		select {
		case <-p.room.gone:
			p.room.thread.Stop()
			if p.before != nil {
				p.before.root.Close()
			}
			p.before, p.room = p.room, nil
		default:
			return p.room, nil
		}
	}
	r, err := newRoom()
	if err != nil {
		return nil, fmt.Errorf("make the namespace of processes: %w", err)
	}
	p.room = r
	return r, nil
}

func newRoom() (*room, error) {
	r := &room{gone: make(chan struct{})}
	var err error
	if r.thread, err = agent.NewThread(enter); err != nil {
		return nil, err
	}
	err = r.thread.Do(func() error {
		keeper, err := startKeeper()
		if err != nil {
			return err
		}
		go func() {
			keeper.Wait()
			close(r.gone)
		}()
		r.root, err = os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
		return err
	})
	if err != nil {
		r.thread.Stop()
		return nil, err
	}
	return r, nil
}

// enter makes the calling thread the one from which the user's processes are started: their file system is its own.
func enter() error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, userSlack, 0, 0, 0); err != nil && err != unix.EINVAL { // gVisor has none
		return os.NewSyscallError("prctl", err)
	}
	return enterEnvironment()
}

// Root is the environment's root folder, with what is mounted over it.
func (p *place) Root() (int, error) {
	r, err := p.now()
	if err != nil {
		return -1, err
	}
	return int(r.root.Fd()), nil
}

// Do calls f in the namespace. What it starts is not protected as the agent is, or there would be nothing to kill when memory is short.
func (p *place) Do(f func() error) error {
	r, err := p.now()
	if err != nil {
		return err
	}
	if p.score == nil {
		return r.thread.Do(f)
	}
	return r.thread.Do(func() error {
		if err := p.rate(killed); err != nil {
			return err
		}
		err := f()
		return errors.Join(err, p.protect())
	})
}

// Start starts a process.
func (p *place) Start(path string, argv []string, attr *os.ProcAttr) (agent.Process, error) {
	started, err := spawn.Start(path, argv, attr, openFiles)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// Group makes a group.
func (p *place) Group() (agent.Group, error) { return p.groups.take() }
