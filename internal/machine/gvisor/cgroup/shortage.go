package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Shortages gives a file that is readable when the group was short of memory, which Killed has to be asked about. It is nil on a host of version 2, whose kernel then
// kills all processes of the group. On one of version 1 the kernel kills one of them, and leaves the rest. The caller closes the file.
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
	told := os.NewFile(uintptr(fd), "shortages")
	if err := g.kernel.write(filepath.Join(g.folders[0], "cgroup.event_control"), fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		told.Close()
		return nil, err
	}
	return told, nil
}

// The kernel says that memory is short before it kills somebody.
const (
	killPatience = time.Second
	killEvery    = 2 * time.Millisecond
)

// Killed tells whether a process of the group was killed in a shortage, for which it waits a second at most. The file can be readable again afterwards.
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
