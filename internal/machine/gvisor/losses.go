package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// losses watches the host processes that run the machine's programs for the sentry. One of these
// programs is the agent. If memory is exhausted, the kernel might kill one of these processes
// instead of the sentry. The sentry never stops them itself, and notices the death only after up to
// half a minute.
type losses struct {
	epoll *os.File
	known map[int]*os.File // pidfds by PID
	group *os.File         // readable if the group is out of memory; nil if the kernel kills the whole group
}

// guard watches the current child processes of the sentry. The first call comes after the agent has
// answered, so that they include the agent's process. Later calls add new processes. If the host
// does not support such a watch, only the sentry notices a death.
func (s *sandbox) guard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.losses == nil {
		l, err := newLosses()
		if err != nil {
			return
		}
		s.losses = l
		if s.group != nil {
			if l.group, err = s.group.Shortages(); err == nil && l.group != nil {
				l.add(l.group)
			}
		}
		go s.watchLosses(l)
	}
	for _, pid := range childrenOf(s.process.PID()) {
		s.losses.process(pid)
	}
}

func newLosses() (*losses, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // Go's poller needs a non-blocking descriptor
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &losses{epoll: os.NewFile(uintptr(fd), "losses"), known: map[int]*os.File{}}, nil
}

// process watches a process, unless the process has ended or is already watched.
func (l *losses) process(pid int) {
	if l.known[pid] != nil {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	l.known[pid] = os.NewFile(uintptr(fd), "process")
	l.add(l.known[pid])
}

func (l *losses) add(f *os.File) {
	fd := int(f.Fd())
	if conn, err := l.epoll.SyscallConn(); err == nil {
		conn.Control(func(epoll uintptr) {
			unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		})
	}
}

// await waits for an event. shortage is true if the event says that the group was out of
// memory. It fails after close.
func (l *losses) await() (shortage bool, err error) {
	conn, err := l.epoll.SyscallConn()
	if err != nil {
		return false, err
	}
	var events [1]unix.EpollEvent
	err = conn.Read(func(epoll uintptr) bool {
		n, err := unix.EpollWait(int(epoll), events[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	return l.group != nil && int(events[0].Fd) == int(l.group.Fd()), err
}

func (l *losses) close() {
	l.epoll.Close()
	for _, f := range l.known {
		f.Close()
	}
	if l.group != nil {
		l.group.Close()
	}
}

// watchLosses kills the sentry when one of its processes is lost.
func (s *sandbox) watchLosses(l *losses) {
	for {
		shortage, err := l.await()
		if err != nil {
			return // the machine has ended
		}
		if !shortage || s.group.Killed(l.group) {
			break
		}
	}
	if s.ends() {
		return // the function watch records the reason
	}
	s.mu.Lock()
	if s.reason == nil && !s.closing {
		s.reason = s.outOfMemory(&fault.Error{Op: "run machine", Kind: fault.Unavailable, Err: errLoss})
	}
	s.mu.Unlock()
	s.process.KillAsync() // the function watch then frees the resources
}

// lossTimeout is how long ends waits for the sentry. If the sentry ends, its child processes end a
// moment earlier.
const lossTimeout = 250 * time.Millisecond

// ends reports whether the sentry itself is ending.
func (s *sandbox) ends() bool {
	select {
	case <-s.process.Done():
		return true
	case <-time.After(lossTimeout):
		return exiting(s.process.PID())
	}
}

// exiting reports whether a process is exiting. An exit takes a while if the process has much
// memory.
func exiting(pid int) bool {
	// flags is the index of the field flags, counted from the field after the name. isExiting is
	// the kernel's PF_EXITING. See proc_pid_stat(5).
	const flags, isExiting = 6, 0x4
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(fields[flags], 10, 64)
	return err == nil && n&isExiting != 0
}

var errLoss = errors.New("a process of gVisor's sentry that runs the machine's programs was killed")

// childrenOf lists the child processes of a process.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
