// Package cgroup bounds the memory, the processors and the processes of a machine by cgroups of the host, where the host lets pyro have some.
//
// A machine gets a group of its own, which is made below a [Parent]: [Find] looks for one. A host has version 2 of cgroups, one tree for all
// controllers, or version 1, with a tree for each. A hybrid host has both, and counts as what its memory controller belongs to. Nothing here needs a
// daemon or a service manager, and nothing here changes the group that pyro itself runs in.
//
// What the files of cgroups mean is from the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ beside it.
package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits says what the processes of a group may take together. A limit of 0 or less is none.
type Limits struct {
	// MemoryBytes bounds the memory, what is in files of tmpfs and memfd and what the kernel keeps for the processes included. Swap is no way around it.
	MemoryBytes int64
	// CPUs bounds the time on processors, as so many of them would give.
	CPUs int
	// Processes bounds the processes and threads.
	Processes int
}

// The controllers, by their names in the kernel. Without memory nothing is bounded; the others are taken where they are.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

var controllers = []string{memory, cpu, pids}

// Parent is where groups can be made.
type Parent struct {
	host    host
	version int               // of cgroups
	folders map[string]string // by controller; version 2 has them all in one
	stale   time.Duration     // see Sweep
}

// Find looks where the present process can make groups. It changes one thing, and only on a host of version 2 without a service manager: where groups
// are made at the root of the tree, the root has to hand its controllers down, and is told to.
//
// The error is a fault.Unavailable. It says why there is no place for groups, with a hint where something would help.
func Find() (*Parent, error) {
	return host{proc: "/proc/self", kernel: linux{}, root: os.Geteuid() == 0, processors: runtime.NumCPU()}.find()
}

// Missing names the controllers that can't be had here, of "cpu" and "pids": [Parent.Make] leaves out their limits.
func (p *Parent) Missing() []string {
	return slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return p.folders[c] != "" })
}

// host is what the package sees of the host. Tests put others in its place.
type host struct {
	proc       string // the folder of the present process in procfs
	kernel     kernel
	root       bool // the present process is root's
	processors int
}

// kernel is how cgroups are changed, as nothing but a kernel's own file system answers to these as it does.
type kernel interface {
	access(path string, mode uint32) error // access(2)
	mkdir(path string) error
	rmdir(path string) error
	write(path, value string) error
}

type linux struct{}

func (linux) access(path string, mode uint32) error { return unix.Access(path, mode) }

// mkdir keeps others out of the folder, who could otherwise hold the lock on it. See Sweep.
func (linux) mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (linux) rmdir(path string) error {
	if err := unix.Rmdir(path); err != nil {
		return &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

func (linux) write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value) // with which it has taken effect: Close has nothing to say
	return err
}

func (h host) find() (*Parent, error) {
	text, err := read(filepath.Join(h.proc, "cgroup"))
	if err != nil {
		return nil, unavailable("this host's kernel shows no cgroups: %w", err)
	}
	groups, err := parseMemberships(text)
	if err != nil {
		return nil, unavailable("%w", err)
	}
	if text, err = read(filepath.Join(h.proc, "mountinfo")); err != nil {
		return nil, unavailable("%w", err)
	}
	mounts, err := parseMounts(text)
	if err != nil {
		return nil, unavailable("%w", err)
	}
	// A controller belongs to one tree only: one with a line of its own has been taken away from version 2.
	if slices.ContainsFunc(groups, func(m membership) bool { return m.has(memory) }) {
		return h.findV1(groups, mounts)
	}
	return h.findV2(groups, mounts)
}

func unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "bound machines by cgroups", "", format, args...)
}

// writable is the hint for containers.
const writable = "give the container cgroups that it may write, for example with docker run --privileged --cgroupns=host"

func readOnly(m mount) *fault.Error {
	return unavailable("the cgroups mounted on %s are read-only, as they are in most containers", m.point).WithHint(writable)
}

// hidden says that a mount does not show pyro's own group: something is mounted over it, or it is from outside the cgroup namespace.
func hidden(m mount, group string) *fault.Error {
	return unavailable("the cgroups mounted on %s don't show the one that pyro runs in, %s", m.point, group).
		WithHint("run the container in the host's cgroup namespace, for example with docker run --cgroupns=host")
}

// refused says that pyro may not write to a folder. hint helps users. Root is refused in user namespaces only, which are a container's.
func (h host) refused(m mount, folder string, err error, hint string) *fault.Error {
	if errors.Is(err, unix.EROFS) {
		return readOnly(m)
	}
	if h.root {
		hint = writable
	}
	return unavailable("pyro may not make cgroups: %w", &os.PathError{Op: "write to", Path: folder, Err: err}).WithHint("%s", hint)
}
