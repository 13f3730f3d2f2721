package cgroup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// findV2 finds a parent in the version 2 tree. A group that contains processes can't enable
// controllers for its children, and pyro's own group contains pyro. So the groups of machines are
// siblings of pyro's group. The permissions and controllers of their common parent apply. Only the
// root of the tree can have both processes and enabled controllers. If pyro runs in the root, the
// groups of machines are children of the root.
func (h host) findV2(groups []membership, mounts []mount) (*Parent, error) {
	i := slices.IndexFunc(groups, func(m membership) bool { return m.v2 })
	if i < 0 {
		return nil, unavailable("this host has no memory controller among its cgroups")
	}
	var first error
	for _, m := range mounts {
		if m.kind != "cgroup2" {
			continue
		}
		p, err := h.parentV2(m, groups[i].path)
		if err == nil {
			return p, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil, unavailable("no cgroups are mounted here").WithHint("mount -t cgroup2 cgroup2 /sys/fs/cgroup, as root")
	}
	return nil, first
}

func (h host) parentV2(m mount, group string) (*Parent, error) {
	own, ok := m.folder(group)
	if !ok || h.kernel.access(filepath.Join(own, "cgroup.procs"), unix.F_OK) != nil {
		return nil, hidden(m, group)
	}
	if m.readOnly {
		return nil, readOnly(m)
	}
	parent := filepath.Dir(own)
	if own == m.point {
		if !h.isRoot(own) {
			return nil, unavailable("pyro runs in the topmost visible cgroup and can't make cgroups beside it: it needs a delegated cgroup").
				WithHint("%s, or in a container move its processes to a child cgroup and enable the controllers for it, as docker:dind does at its start", h.scope())
		}
		parent = own
	}
	// To start a process in another group, pyro needs write access to cgroup.procs of the common
	// parent.
	err := h.kernel.access(parent, unix.W_OK|unix.X_OK)
	if err == nil {
		err = h.kernel.access(filepath.Join(parent, "cgroup.procs"), unix.W_OK)
	}
	if err != nil {
		return nil, h.refused(m, parent, err, h.scope())
	}
	had, err := h.delegatedControllers(parent)
	if err != nil {
		return nil, err
	}
	p := &Parent{host: h, version: 2, folders: map[string]string{}, stale: staleAfter}
	for _, c := range controllers {
		if slices.Contains(had, c) {
			p.folders[c] = parent
		}
	}
	return p, nil
}

// isRoot reports whether a folder is the root of the whole tree. The root of a cgroup namespace
// also has the path "/". Only the root of the whole tree has no cgroup.events.
func (h host) isRoot(folder string) bool {
	return errors.Is(h.kernel.access(filepath.Join(folder, "cgroup.events"), unix.F_OK), fs.ErrNotExist)
}

// delegatedControllers lists the controllers that a folder enables for its child groups. Memory
// must be one of them. If the folder is the root of the tree, delegatedControllers first enables
// missing controllers. It does not change other groups, because they belong to a service manager.
func (h host) delegatedControllers(parent string) ([]string, error) {
	control := filepath.Join(parent, "cgroup.subtree_control")
	had, err := words(control)
	if err == nil && h.isRoot(parent) {
		if err = h.delegateControllers(parent, had); err == nil {
			had, err = words(control)
		}
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(had, memory) {
		return nil, unavailable("%s does not enable the memory controller for its child cgroups", parent).WithHint("%s", h.scope())
	}
	return had, nil
}

// delegateControllers enables the controllers that this package uses in the root of the tree.
func (h host) delegateControllers(root string, had []string) error {
	has, err := words(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(has, memory) {
		return unavailable("this host's kernel has no memory controller, or has it switched off").
			WithHint("boot the host with cgroup_enable=memory on its kernel's command line")
	}
	for _, c := range controllers {
		if !slices.Contains(has, c) || slices.Contains(had, c) {
			continue
		}
		// An error for an optional controller is ignored. For example, the kernel rejects cpu while
		// a real-time process is in a group.
		if err := h.kernel.write(filepath.Join(root, "cgroup.subtree_control"), "+"+c); err != nil && c == memory {
			return unavailable("%w", err)
		}
	}
	return nil
}

func words(path string) ([]string, error) {
	text, err := read(path)
	if err != nil {
		return nil, unavailable("%w", err)
	}
	return strings.Fields(text), nil
}

// scope returns a command for a hint. The command makes systemd start pyro in a new group, and pyro
// is allowed to use the parent of this group. For a user that parent is below the user's service
// manager.
func (h host) scope() string {
	if h.root {
		return "systemd-run --scope -p Delegate=yes pyro …"
	}
	return "systemd-run --user --scope -p Delegate=yes pyro …"
}

// settingsV2 returns the settings for the limits.
func (h host) settingsV2(l Limits) []setting {
	var all []setting
	if l.MemoryBytes > 0 {
		all = append(all,
			setting{memory, "memory.max", strconv.FormatInt(l.MemoryBytes, 10), nil},
			setting{memory, "memory.swap.max", "0", fs.ErrNotExist}, // the file exists only if the kernel supports swap
			// A machine is useless if the kernel kills only some of its processes.
			setting{memory, "memory.oom.group", "1", nil})
	}
	if l.CPUs > 0 && l.CPUs < h.processors {
		all = append(all, setting{cpu, "cpu.max", strconv.Itoa(l.CPUs*cpuPeriod) + " " + strconv.Itoa(cpuPeriod), nil})
	}
	if l.Processes > 0 {
		all = append(all, setting{pids, "pids.max", strconv.Itoa(l.Processes), nil})
	}
	return all
}
