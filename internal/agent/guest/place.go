package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/spawn"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// place is the namespace of the user's processes. When its keeper has died it is made again: the processes are gone, the files are not.
type place struct {
	ownKernel bool // which keeps the clock and the random pool, and mounts disks
	groups    *groups
	score     *os.File // the agent's own /proc/self/oom_score_adj, where a kernel looks at it

	mu       sync.Mutex
	room     *room
	before   *room                 // the life before, whose root a call may still be using
	rooted   bool                  // the root is mounted
	own      bool                  // the root has the machine's identity, or gets it with Renew
	volume   *volume.Volume        // nil: it is not mounted
	identity *agentv1.RenewRequest // the last
	link     agent.Link            // as eth0 was configured last; the zero value: it was not
	bootID   string                // that processes are told; empty: the kernel's own
	keyless  string                // the machine whose environment has no host keys any more
	quiesced bool
	frozen   []string // mount points
}

// room is one life of the namespace.
type room struct {
	root   *os.File
	thread *agent.Thread
	keeper *spawn.Process
	gone   chan struct{} // closed when the keeper has died
	ended  sync.Once
}

var _ agent.Place = (*place)(nil)

// newPlace makes the place, but for its room, which is made by the first call of now. rooted: its root is mounted already.
func newPlace(ownKernel, rooted bool) (*place, error) {
	most := int64(maxProcesses)
	if !ownKernel {
		most = maxSandboxProcesses
	}
	g, err := newGroups(cgroups, most)
	if err != nil {
		return nil, err
	}
	p := &place{ownKernel: ownKernel, groups: g, rooted: rooted, own: rooted}
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
	return p.nowLocked()
}

func (p *place) nowLocked() (*room, error) {
	switch {
	case p.quiesced:
		return nil, agent.ErrQuiesced
	case !p.rooted:
		return nil, agent.ErrNoRoot
	}
	if p.room != nil {
		if !p.room.over() {
			return p.room, nil
		}
		p.room.ended.Do(p.room.thread.Stop)
		if p.before != nil {
			p.before.root.Close()
		}
		p.before, p.room = p.room, nil
	}
	volume, err := p.volumeMounted()
	if err != nil {
		return nil, err
	}
	r, err := newRoom(volume)
	if err != nil {
		return nil, fmt.Errorf("make the namespace of processes: %w", err)
	}
	if p.bootID != "" {
		if err := r.thread.Do(func() error { return tellBootID(p.bootID) }); err != nil {
			return nil, errors.Join(fmt.Errorf("renew the boot id: %w", err), r.end(context.Background()))
		}
	}
	p.room = r
	return r, nil
}

// over tells whether the keeper has died.
func (r *room) over() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// newRoom makes a room, with the volume in it where that is mounted.
func newRoom(volume bool) (*room, error) {
	r := &room{gone: make(chan struct{})}
	var err error
	if r.thread, err = agent.NewThread(func() error { return enter(volume) }); err != nil {
		return nil, err
	}
	err = r.thread.Do(func() (err error) {
		if r.keeper, err = startKeeper(); err != nil {
			return err
		}
		go func() {
			r.keeper.Wait()
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
func enter(volume bool) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, userSlack, 0, 0, 0); err != nil && err != unix.EINVAL { // gVisor has none
		return os.NewSyscallError("prctl", err)
	}
	return enterEnvironment(volume)
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
