package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Shortages returns a file that becomes readable when a version 1 group is out of memory. The
// kernel might then have killed one of the processes: call Killed to find out. On version 2
// Shortages returns nil, because there the kernel kills all processes of the group. The caller
// closes the file.
func (g *Group) Shortages() (*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.version == 2 || g.closed {
		return nil, nil
	}
	control, err := os.Open(g.events)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	eventFile := os.NewFile(uintptr(fd), "shortages")
	if err := g.kernel.write(filepath.Join(g.folders[0], "cgroup.event_control"), fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		eventFile.Close()
		return nil, err
	}
	return eventFile, nil
}

// The kernel reports that memory is exhausted before it kills a process. So Killed waits for the
// kill.
const (
	killPatience = time.Second
	killEvery    = 2 * time.Millisecond
)

// Killed waits up to a second for the kernel to kill a process of the group, and reports whether it
// did. The file can become readable again afterwards.
func (g *Group) Killed(shortages *os.File) bool {
	var count [8]byte
	unix.Read(int(shortages.Fd()), count[:])
	for end := time.Now().Add(killPatience); time.Now().Before(end); time.Sleep(killEvery) {
		if g.OutOfMemory() {
			return true
		}
	}
	return false
}
