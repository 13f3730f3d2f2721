package cgroup

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// findV1 finds a parent in each tree of version 1, which is pyro's own group. In version 1 a group
// can contain both processes and groups.
func (h host) findV1(groups []membership, mounts []mount) (*Parent, error) {
	p := &Parent{host: h, version: 1, folders: map[string]string{}, stale: staleAfter}
	for _, c := range controllers {
		folder, err := h.parentV1(groups, mounts, c)
		if err == nil {
			p.folders[c] = folder
		} else if c == memory {
			return nil, err
		}
	}
	return p, nil
}

func (h host) parentV1(groups []membership, mounts []mount, controller string) (string, error) {
	i := slices.IndexFunc(groups, func(m membership) bool { return m.has(controller) })
	if i < 0 {
		return "", unavailable("this host has no %s controller", controller)
	}
	var first error
	for _, m := range mounts {
		if m.kind != "cgroup" || !slices.Contains(m.super, controller) {
			continue
		}
		own, err := h.ownV1(m, groups[i].path)
		if err == nil {
			return own, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return "", unavailable("the %s controller's cgroups are not mounted here", controller).
			WithHint("mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s, as root", controller, controller)
	}
	return "", first
}

func (h host) ownV1(m mount, group string) (string, error) {
	own, ok := m.folder(group)
	if !ok || h.kernel.access(filepath.Join(own, "cgroup.procs"), unix.F_OK) != nil {
		return "", hidden(m, group)
	}
	if m.readOnly {
		return "", readOnly(m)
	}
	if err := h.kernel.access(own, unix.W_OK|unix.X_OK); err != nil {
		return "", h.refused(m, own, err, "run pyro as root, or boot the host with version 2 of cgroups: systemd.unified_cgroup_hierarchy=1")
	}
	return own, nil
}

// settingsV1 returns the settings for the limits in the order that the kernel needs. The memory
// limit comes before the limit of memory with swap, and the period before the quota.
func (h host) settingsV1(l Limits) []setting {
	var all []setting
	if l.MemoryBytes > 0 {
		bytes := strconv.FormatInt(l.MemoryBytes, 10)
		all = append(all,
			setting{memory, "memory.limit_in_bytes", bytes, nil},
			// The file exists only if the kernel accounts for swap.
			setting{memory, "memory.memsw.limit_in_bytes", bytes, fs.ErrNotExist})
	}
	if l.CPUs > 0 && l.CPUs < h.processors {
		all = append(all,
			setting{cpu, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod), nil},
			// The error means that the parent has a lower limit, which is enough.
			setting{cpu, "cpu.cfs_quota_us", strconv.Itoa(l.CPUs * cpuPeriod), unix.EINVAL})
	}
	if l.Processes > 0 {
		all = append(all, setting{pids, "pids.max", strconv.Itoa(l.Processes), nil})
	}
	return all
}
