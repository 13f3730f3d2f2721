package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// place is the namespace of the user's processes. When its keeper has died it is made again: the processes are gone, the files are not.
type place struct {
	groups *groups
	score  *os.File // the agent's own /proc/self/oom_score_adj

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

func newPlace() (*place, error) {
	g, err := newGroups(cgroups)
	if err != nil {
		return nil, err
	}
	score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	p := &place{groups: g, score: score}
	if err := p.protect(); err != nil {
		return nil, err
	}
	_, err = p.now()
	return p, err
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
	keeper, gone, err := startKeeper()
	if err != nil {
		return nil, err
	}
	r := &room{gone: gone}
	r.thread, err = agent.NewThread(func() error { return enter(keeper) })
	if err == nil {
		err = r.thread.Do(func() (err error) {
			r.root, err = os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
			return err
		})
	}
	if err != nil {
		if r.thread != nil {
			r.thread.Stop()
		}
		syscall.Kill(keeper, syscall.SIGKILL)
		return nil, err
	}
	return r, nil
}

// keeperPatience bounds how long the keeper makes the namespace ready.
const keeperPatience = 10 * time.Second

// startKeeper starts the PID 1 of a new namespace and waits until that is ready.
func startKeeper() (pid int, gone chan struct{}, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	proc, err := os.StartProcess(program, []string{KeeperName}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, w},
		Env:   []string{"GOGC=off", "GOMEMLIMIT=8MiB"},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Setsid: true},
	})
	w.Close()
	if err != nil {
		return 0, nil, err
	}
	gone = make(chan struct{})
	go func() {
		proc.Wait()
		close(gone)
	}()
	r.SetReadDeadline(time.Now().Add(keeperPatience))
	said, err := io.ReadAll(io.LimitReader(r, 1024))
	if err == nil && string(said) != "ok" {
		err = fmt.Errorf("%s", said)
	}
	if err != nil {
		proc.Kill()
	}
	return proc.Pid, gone, err
}

// enter moves the calling thread to where the keeper is. Processes that it starts are in the keeper's PID namespace.
func enter(keeper int) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, userSlack, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// A thread that shares its root with others can't have another mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	for _, ns := range []struct {
		name string
		kind int
	}{{"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", keeper, ns.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("open namespace", err)
		}
		err = unix.Setns(fd, ns.kind)
		unix.Close(fd)
		if err != nil {
			return os.NewSyscallError("setns", err)
		}
	}
	return nil
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
	return r.thread.Do(func() error {
		if err := p.rate(killed); err != nil {
			return err
		}
		err := f()
		return errors.Join(err, p.protect())
	})
}

// Group makes a group.
func (p *place) Group() (agent.Group, error) { return p.groups.take() }
