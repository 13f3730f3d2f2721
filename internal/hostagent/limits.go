package hostagent

import (
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits are what all sandboxes together may be promised; 0: there is no limit. DiskFree is what has to be free on the host's disk beside, in Folder.
type Limits struct {
	MemoryMB, VCPUs, DiskMB int
	DiskFreeMB              int
	Folder                  string
}

// takes is what a sandbox was promised: one that is paused has nothing but its disk.
func (s *sandbox) takes() (memory, vcpus, disk int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting {
		return 0, 0, s.is.DiskSizeMB
	}
	return s.is.MemoryMB, s.is.VCPUs, s.is.DiskSizeMB
}

// admit refuses a sandbox that the host has no room for. The agent's lock is held.
func (a *Agent) admit(want record) error {
	l, memory, vcpus, disk := a.options.Limits, want.MemoryMB, want.VCPUs, want.DiskSizeMB
	for id, s := range a.sandboxes {
		if id != want.SandboxID {
			m, v, d := s.takes()
			memory, vcpus, disk = memory+m, vcpus+v, disk+d
		}
	}
	for _, c := range []struct {
		what      string
		sum, most int
	}{{"MB of memory", memory, l.MemoryMB}, {"processors", vcpus, l.VCPUs}, {"MB of disk", disk, l.DiskMB}} {
		if c.most > 0 && c.sum > c.most {
			return fault.Newf(fault.Exhausted, "the sandboxes of this host would have %d %s: at most %d", c.sum, c.what, c.most).
				WithHint("call PauseSandbox or DestroySandbox for one that is not needed, or take another host")
		}
	}
	if l.DiskFreeMB > 0 && l.Folder != "" {
		var st unix.Statfs_t
		if err := unix.Statfs(l.Folder, &st); err != nil {
			return fault.Wrap(err, "look how much of the disk is free", l.Folder)
		}
		if free := st.Bavail * uint64(st.Bsize) >> 20; free < uint64(l.DiskFreeMB) {
			return fault.Newf(fault.Exhausted, "%d MB of the host's disk are free: at least %d must be", free, l.DiskFreeMB).
				WithHint("call DestroySandbox for one that is not needed; pyro env prune on the host")
		}
	}
	return nil
}

// admitAgain has a sandbox that is paused take its memory and processors again, where there is room.
func (a *Agent) admitAgain(s *sandbox) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admit(s.record()); err != nil {
		return err
	}
	s.rest(false)
	return nil
}
