package hostagent

import (
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits are the maximum resources of all sandboxes together. Zero means no limit. DiskFreeMB is
// the minimum free space in the file system of Folder; new sandboxes are rejected below it.
type Limits struct {
	MemoryMB, VCPUs, DiskMB int
	DiskFreeMB              int
	Folder                  string
}

// reserved returns the resources that are reserved for a sandbox. A paused sandbox reserves only
// its disk.
func (s *sandbox) reserved() (memory, vcpus, disk int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return 0, 0, s.rec.DiskSizeMB
	}
	return s.rec.MemoryMB, s.rec.VCPUs, s.rec.DiskSizeMB
}

// admit fails with Exhausted if a sandbox would exceed the limits. The caller must hold a.mu.
func (a *Agent) admit(want record) error {
	l, memory, vcpus, disk := a.options.Limits, want.MemoryMB, want.VCPUs, want.DiskSizeMB
	for id, s := range a.sandboxes {
		if id != want.SandboxID {
			m, v, d := s.reserved()
			memory, vcpus, disk = memory+m, vcpus+v, disk+d
		}
	}
	for _, c := range []struct {
		what       string
		sum, limit int
	}{{"MB of memory", memory, l.MemoryMB}, {"processors", vcpus, l.VCPUs}, {"MB of disk", disk, l.DiskMB}} {
		if c.limit > 0 && c.sum > c.limit {
			return fault.Newf(fault.Exhausted, "the sandboxes of this host would reserve %d %s: the limit is %d", c.sum, c.what, c.limit).
				WithHint("free some with PauseSandbox or DestroySandbox, or use another host")
		}
	}
	if l.DiskFreeMB > 0 && l.Folder != "" {
		var st unix.Statfs_t
		if err := unix.Statfs(l.Folder, &st); err != nil {
			return fault.Wrap(err, "read the free disk space of", l.Folder)
		}
		if free := st.Bavail * uint64(st.Bsize) >> 20; free < uint64(l.DiskFreeMB) {
			return fault.Newf(fault.Exhausted, "the host's disk has %d MB free: it must have at least %d", free, l.DiskFreeMB).
				WithHint("free some with DestroySandbox, or with pyro env prune on the host")
		}
	}
	return nil
}

// readmit reserves memory and processors for a paused sandbox before it resumes. It fails with
// Exhausted if the sandbox would exceed the limits.
func (a *Agent) readmit(s *sandbox) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admit(s.record()); err != nil {
		return err
	}
	s.setPaused(false)
	return nil
}
