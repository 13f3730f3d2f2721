// Package cgroup limits a machine's memory, processors and processes with cgroups of the host, if
// pyro is allowed to make cgroups.
//
// Each machine has a group below a [Parent], and [Find] finds the parent. Version 2 of cgroups has
// one tree for all controllers. Version 1 has one tree for each controller. A hybrid host has both
// versions. The package then uses the version that has the memory controller. The package needs no
// daemon or service manager. It never changes pyro's own group.
//
// The kernel documents the files in Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
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

// Limits apply to all processes of a group together. A value of 0 or less means no limit.
type Limits struct {
	// MemoryBytes limits the memory. Files in tmpfs and memfd, the kernel's memory for the
	// processes, and swap count too.
	MemoryBytes int64
	// CPUs limits the processor time. The unit is processors.
	CPUs int
	// Processes limits the number of processes and threads.
	Processes int
}

// These are the kernel's names for the controllers. Memory is required. The others are optional.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

var controllers = []string{memory, cpu, pids}

// Parent is the group below which pyro creates the groups of machines.
type Parent struct {
	host    host
	version int               // cgroup version, 1 or 2
	folders map[string]string // path of the parent, by controller; in version 2 all are the same
	stale   time.Duration     // minimum age of groups that Sweep removes
}

// Find finds the parent for the current process. On a host with version 2 and no service manager,
// it also enables controllers in the root of the tree for its children. It changes nothing else.
//
// The error has kind Unavailable and contains the reason why pyro can't create groups. If there is
// a fix, it has a hint.
func Find() (*Parent, error) {
	return host{proc: "/proc/self", kernel: linux{}, root: os.Geteuid() == 0, processors: runtime.NumCPU()}.find()
}

// Missing lists the optional controllers, "cpu" and "pids", that this host lacks. [Parent.Make]
// does not set their limits.
func (p *Parent) Missing() []string {
	return slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return p.folders[c] != "" })
}

// host is the part of the host that the package uses. Tests replace it.
type host struct {
	proc       string // folder of the current process in /proc
	kernel     kernel
	root       bool // the current process is root
	processors int
}

// kernel has the operations on cgroups that only the kernel's own file system supports.
type kernel interface {
	access(path string, mode uint32) error // access(2)
	mkdir(path string) error
	rmdir(path string) error
	write(path, value string) error
}

type linux struct{}

func (linux) access(path string, mode uint32) error { return unix.Access(path, mode) }

// mkdir lets only root open the folder. Otherwise another user could hold the lock on the folder,
// see Sweep.
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
	_, err = f.WriteString(value) // the write takes effect here, so the result of Close does not matter
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
	// A line that names a controller belongs to version 1.
	if slices.ContainsFunc(groups, func(m membership) bool { return m.has(memory) }) {
		return h.findV1(groups, mounts)
	}
	return h.findV2(groups, mounts)
}

func unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "limit machines with cgroups", "", format, args...)
}

// writable is the hint for pyro in a container.
const writable = "give the container writable cgroups, for example with docker run --privileged --cgroupns=host"

func readOnly(m mount) *fault.Error {
	return unavailable("the cgroups mounted on %s are read-only, as they are in most containers", m.point).WithHint(writable)
}

// hidden reports that a mount does not show pyro's own group. Either another mount covers the
// group, or the group is outside the cgroup namespace.
func hidden(m mount, group string) *fault.Error {
	return unavailable("the cgroups mounted on %s do not contain pyro's own cgroup, %s", m.point, group).
		WithHint("run the container in the host's cgroup namespace, for example with docker run --cgroupns=host")
}

// refused reports that pyro is not allowed to write to a folder. The parameter hint is for ordinary
// users. Root lacks this permission only in user namespaces, that is, in containers.
func (h host) refused(m mount, folder string, err error, hint string) *fault.Error {
	if errors.Is(err, unix.EROFS) {
		return readOnly(m)
	}
	if h.root {
		hint = writable
	}
	return unavailable("pyro is not allowed to make cgroups: %w", &os.PathError{Op: "write to", Path: folder, Err: err}).WithHint("%s", hint)
}
