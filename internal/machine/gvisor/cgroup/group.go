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
	// prefix is the start of the names of all groups that pyro makes.
	prefix = "pyro-"
	// maxName is the maximum length of the rest of a name, in bytes. File names can have 255 bytes.
	maxName = 200
	// cpuPeriod is the period of the processor limit in microseconds. It is the kernel's default.
	cpuPeriod = 100_000
	// closeTimeout is the maximum time that Close waits for killed processes. The kernel needs
	// seconds to free much memory.
	closeTimeout = 10 * time.Second
	closeEvery   = 2 * time.Millisecond
)

// setting is a value to write to a file of a group.
type setting struct {
	controller, file, value string
	harmless                error // an error to ignore, or nil
}

// Group is the group of one machine. It is safe for concurrent use.
type Group struct {
	kernel  kernel
	name    string
	version int
	events  string // path of the file that counts killed processes

	mu      sync.Mutex
	folders []string // folders that are not removed yet
	dir     *os.File // folder of the group in version 2, or nil
	locks   []*flock.Lock
	closed  bool
	oom     bool // OutOfMemory at the time of Close
}

// Make creates a group and sets the limits for all controllers that the host has. It fails if it
// can't set one of these limits. If a group with this name exists, the error has kind fault.Exists.
// The group exists until [Group.Close].
func (p *Parent) Make(name string, l Limits) (*Group, error) {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\n\x00") {
		return nil, fault.New(fault.Invalid, "make cgroup", name, "invalid name of a cgroup")
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
			continue // several controllers can share a tree of version 1
		}
		if err := g.kernel.mkdir(folder); err != nil {
			return err
		}
		g.folders = append(g.folders, folder)
		lock, err := flock.TryFolder(folder, flock.Exclusive) // locked until Close, see Sweep
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

// Attr makes a process start in the group on a host with version 2. It needs Linux 5.7. On version
// 1 Attr does nothing, see [Group.Add]. The process must start before Close.
func (g *Group) Attr(attr *syscall.SysProcAttr) {
	if g.version == 2 {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.dir.Fd())
	}
}

// Add moves a process into the group on a host with version 1. From then on the limits apply to its
// memory and its child processes. On version 2 Add does nothing, see [Group.Attr]. After an error
// the process might be in some trees but not in others. The caller must then kill the process and
// close the group.
func (g *Group) Add(pid int) error {
	if g.version == 2 {
		return nil
	}
	if pid <= 0 {
		// The kernel would take the PID 0 for this process.
		return fault.New(fault.Invalid, "move process into cgroup", g.name, "%d is not a process", pid)
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

// OutOfMemory reports whether the kernel has killed a process because the group's memory or the
// host's memory was exhausted. In that case version 2 kills all processes of the group, and version
// 1 kills one. Before Linux 4.13 the kernel does not count these kills. After Close, OutOfMemory
// returns the value at the time of Close.
func (g *Group) OutOfMemory() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outOfMemory()
}

func (g *Group) outOfMemory() bool {
	text, err := read(g.events)
	return g.oom || err == nil && count(text, "oom_kill") > 0
}

// Close kills the processes of the group and removes the group. If the kernel still uses the group
// after ten seconds, the error is a fault.Timeout. Close is idempotent: another call tries again.
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
			return fault.New(fault.Timeout, "remove cgroup", g.name, "its killed processes have not ended after %s: %w", closeTimeout, err)
		}
	}
	for _, l := range g.locks {
		l.Release()
	}
	g.dir.Close() // in version 1 dir is nil, and Close then does nothing
	return nil
}

// remove removes the group's folders. The error is EBUSY while a folder contains processes.
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

// kill kills the processes of the group. In version 2, Linux 5.14 has the file cgroup.kill. A
// single write to this file kills all processes, including new ones. Otherwise kill kills the
// processes one by one. If there is a pids controller, kill first forbids new processes.
func (g *Group) kill() {
	for _, folder := range g.folders {
		if g.version == 2 && g.kernel.write(filepath.Join(folder, "cgroup.kill"), "1") == nil {
			continue
		}
		_ = g.kernel.write(filepath.Join(folder, "pids.max"), "0") // the file exists only with the pids controller
		text, err := read(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue
		}
		all, _ := processes(text)
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the process is already gone, or is a zombie
		}
	}
}
