package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

const (
	// prefix is what the names of our groups begin with.
	prefix = "pyro-"
	// maxName bounds the rest of a name: file names may have 255 bytes.
	maxName = 200
	// cpuPeriod is the time, in microseconds, in which a group may use its share of the processors: the kernel's default.
	cpuPeriod = 100_000
	// closeTimeout bounds how long Close waits for killed processes to be gone: to free the memory of a big one takes the kernel seconds.
	closeTimeout = 10 * time.Second
	closeEvery   = 2 * time.Millisecond
)

// setting is a file of a group and what it is set to.
type setting struct {
	controller, file, value string
	harmless                error // a failure that is none, or nil
}

// Group is the group of one machine. Its methods may be called at the same time.
type Group struct {
	kernel  kernel
	name    string
	version int
	events  string // path of the file with the count of kills

	mu      sync.Mutex
	folders []string // that are not yet removed
	dir     *os.File // the one folder of version 2
	locks   []*flock.Lock
	closed  bool
	oom     bool // at the time of Close
}

// Make makes a group that is named after a machine, and sets its limits: all of them, but for those of missing controllers, or there is no group. The
// kinds of its errors are those of fault.KindOf, among them fault.Exists for a name that is taken. The group lasts until [Group.Close].
func (p *Parent) Make(name string, l Limits) (*Group, error) {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\n\x00") {
		return nil, fault.New(fault.Invalid, "make cgroup", name, "no name for a cgroup")
	}
	g := &Group{kernel: p.host.kernel, name: name, version: p.version}
	if err := g.make(p, l); err != nil {
		return nil, fault.Wrap(errors.Join(err, g.Close()), "make cgroup", name)
	}
	return g, nil
}

func (g *Group) make(p *Parent, l Limits) error {
	for _, c := range controllers {
		folder := filepath.Join(p.folders[c], prefix+g.name)
		if p.folders[c] == "" || slices.Contains(g.folders, folder) {
			continue // trees of version 1 can have several controllers too
		}
		if err := g.kernel.mkdir(folder); err != nil {
			return err
		}
		g.folders = append(g.folders, folder)
		lock, err := flock.TryFolder(folder, flock.Exclusive) // see Sweep
		if err != nil {
			return err
		}
		g.locks = append(g.locks, lock)
	}
	settings, events := p.host.settingsV1, "memory.oom_control"
	if p.version == 2 {
		settings, events = p.host.settingsV2, "memory.events"
		var err error
		if g.dir, err = os.Open(g.folders[0]); err != nil {
			return err
		}
	}
	g.events = filepath.Join(g.folders[0], events)
	for _, s := range settings(l) {
		if p.folders[s.controller] == "" {
			continue
		}
		err := g.kernel.write(filepath.Join(p.folders[s.controller], prefix+g.name, s.file), s.value)
		if err != nil && (s.harmless == nil || !errors.Is(err, s.harmless)) {
			return err
		}
	}
	return nil
}

// Attr has a process start inside the group, on a host of version 2; on one of version 1 it does nothing, see [Group.Add]. The process has to be
// started before Close. It takes Linux 5.7.
func (g *Group) Attr(attr *syscall.SysProcAttr) {
	if g.version == 2 {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.dir.Fd())
	}
}

// Add moves a process into the group, on a host of version 1: with the memory that it takes from then on, and with the processes that it starts from
// then on. On a host of version 2 it does nothing, see [Group.Attr]. After an error the process can be in some of the trees: kill it, and close the
// group.
func (g *Group) Add(pid int) error {
	if g.version == 2 {
		return nil
	}
	if pid <= 0 {
		return fault.New(fault.Invalid, "move process into cgroup", g.name, "%d is no process", pid) // and 0 would be pyro itself
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fault.New(fault.Precondition, "move process into cgroup", g.name, "it is closed")
	}
	for _, folder := range g.folders {
		if err := g.kernel.write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fault.Wrap(err, "move process into cgroup", g.name)
		}
	}
	return nil
}

// OutOfMemory tells whether the kernel has killed one of the processes for want of memory, the group's or the host's. Version 2 then kills them all,
// version 1 one. Before Linux 4.13 the kernel does not count. After Close it is what it was when that began.
func (g *Group) OutOfMemory() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outOfMemory()
}

func (g *Group) outOfMemory() bool {
	text, err := read(g.events)
	return g.oom || err == nil && count(text, "oom_kill") > 0
}

// Close kills what is left in the group and removes it. It waits up to ten seconds until the kernel lets go of it, and gives a fault.Timeout where it
// does not. It is idempotent: the second time there is nothing to do, or what the first left is tried again.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.oom = true, g.outOfMemory()
	for end := time.Now().Add(closeTimeout); ; time.Sleep(closeEvery) {
		err := g.remove()
		if err == nil {
			break
		}
		g.kill()
		if !errors.Is(err, unix.EBUSY) {
			return fault.Wrap(err, "remove cgroup", g.name)
		}
		if time.Now().After(end) {
			return fault.New(fault.Timeout, "remove cgroup", g.name, "its processes are killed, but not gone after %s: %w", closeTimeout, err)
		}
	}
	for _, l := range g.locks {
		l.Release()
	}
	g.dir.Close() // nil does no harm
	return nil
}

// remove removes the folders that can be removed. One that still has processes is busy.
func (g *Group) remove() error {
	var failed error
	g.folders = slices.DeleteFunc(g.folders, func(folder string) bool {
		err := g.kernel.rmdir(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		failed = err
		return false
	})
	return failed
}

// kill kills the processes. cgroup.kill gets all of them at once, those that are just starting too. It is of version 2 and Linux 5.14: elsewhere they
// are killed one by one, and those that have been started meanwhile the next time. That ends, as after the first step no more can be started where
// there is pids.
func (g *Group) kill() {
	for _, folder := range g.folders {
		if g.version == 2 && g.kernel.write(filepath.Join(folder, "cgroup.kill"), "1") == nil {
			continue
		}
		_ = g.kernel.write(filepath.Join(folder, "pids.max"), "0") // is only in the folder of pids
		text, err := read(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue
		}
		all, _ := processes(text)
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one that is gone already, or a zombie
		}
	}
}
