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

// findV2 finds a place in the tree of version 2. A group that has processes can't hand controllers down ("no internal processes"), and pyro is in its
// own. So machines get groups beside it: then who may make them depends on the group above, and which controllers they have too. Only the root of the
// tree may have processes and hand down, and where pyro is in it, machines get groups below.
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
		p, err := h.placeV2(m, groups[i].path)
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

func (h host) placeV2(m mount, group string) (*Parent, error) {
	own, ok := m.folder(group)
	if !ok || h.kernel.access(filepath.Join(own, "cgroup.procs"), unix.F_OK) != nil {
		return nil, hidden(m, group)
	}
	if m.readOnly {
		return nil, readOnly(m)
	}
	place := filepath.Dir(own)
	if own == m.point {
		if !h.isRoot(own) {
			return nil, unavailable("pyro runs in the topmost cgroup that it can see, beside which it can't make any: it needs a delegated one").
				WithHint("%s, or in a container move its processes to a cgroup below and hand the controllers down, as docker:dind does at its start", h.scope())
		}
		place = own
	}
	// To start a process in another group takes the right to move one there: to write to cgroup.procs of the group above both.
	err := h.kernel.access(place, unix.W_OK|unix.X_OK)
	if err == nil {
		err = h.kernel.access(filepath.Join(place, "cgroup.procs"), unix.W_OK)
	}
	if err != nil {
		return nil, h.refused(m, place, err, h.scope())
	}
	had, err := h.handedDown(place)
	if err != nil {
		return nil, err
	}
	p := &Parent{host: h, version: 2, folders: map[string]string{}, stale: staleAfter}
	for _, c := range controllers {
		if slices.Contains(had, c) {
			p.folders[c] = place
		}
	}
	return p, nil
}

// isRoot tells the root of the tree from the root of a cgroup namespace, which also reads "/": only the first has no cgroup.events.
func (h host) isRoot(folder string) bool {
	return errors.Is(h.kernel.access(filepath.Join(folder, "cgroup.events"), unix.F_OK), fs.ErrNotExist)
}

// handedDown names the controllers that groups in a folder have, with memory among them. Other than the root, which is told to hand down what it has,
// groups are left as they are: they are a service manager's.
func (h host) handedDown(place string) ([]string, error) {
	control := filepath.Join(place, "cgroup.subtree_control")
	had, err := words(control)
	if err == nil && h.isRoot(place) {
		if err = h.handDown(place, had); err == nil {
			had, err = words(control)
		}
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(had, memory) {
		return nil, unavailable("%s does not hand the memory controller down to the cgroups in it", place).WithHint("%s", h.scope())
	}
	return had, nil
}

// handDown has the root hand down those of our controllers that it does not yet.
func (h host) handDown(root string, had []string) error {
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
		// The others may fail: cpu is refused while a process with real-time priority is in a group.
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

// scope is the command by which systemd gives pyro a group beside which it can make others: to a user, below the manager of the user's services.
func (h host) scope() string {
	if h.root {
		return "systemd-run --scope -p Delegate=yes pyro …"
	}
	return "systemd-run --user --scope -p Delegate=yes pyro …"
}

// settingsV2 are the files that set the limits.
func (h host) settingsV2(l Limits) []setting {
	var all []setting
	if l.MemoryBytes > 0 {
		all = append(all,
			setting{memory, "memory.max", strconv.FormatInt(l.MemoryBytes, 10), nil},
			setting{memory, "memory.swap.max", "0", fs.ErrNotExist}, // in kernels that can swap
			setting{memory, "memory.oom.group", "1", nil})           // a machine of which some processes are killed is of no use
	}
	if l.CPUs > 0 && l.CPUs < h.processors {
		all = append(all, setting{cpu, "cpu.max", strconv.Itoa(l.CPUs*cpuPeriod) + " " + strconv.Itoa(cpuPeriod), nil})
	}
	if l.Processes > 0 {
		all = append(all, setting{pids, "pids.max", strconv.Itoa(l.Processes), nil})
	}
	return all
}
