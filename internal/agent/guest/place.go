package guest

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// place is the namespace of the user's processes. When its keeper has died it is made again: the processes are gone, the files are not.
type place struct {
	groups *groups

	mu   sync.Mutex
	room *room
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
	p := &place{groups: g}
	_, err = p.now()
	return p, err
}

// now gives the room as it is, or a new one.
func (p *place) now() (*room, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room != nil {
		select {
		case <-p.room.gone:
			p.room.thread.Stop()
			p.room.root.Close()
			p.room = nil
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
		syscall.Kill(keeper, syscall.SIGKILL)
		return nil, err
	}
	return r, nil
}

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

// Do calls f in the namespace.
func (p *place) Do(f func() error) error {
	r, err := p.now()
	if err != nil {
		return err
	}
	return r.thread.Do(f)
}

// Group makes a group.
func (p *place) Group() (agent.Group, error) { return p.groups.take() }
