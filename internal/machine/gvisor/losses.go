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

// losses watches for what ends a machine without the end of its sentry: the death of one of the processes in which the sentry runs the machine's programs. The sentry
// never ends one of them. It notices a death after half a minute at worst, and the agent of a machine is one of these programs. The kernel kills such a process, and
// not the sentry, when memory is short and the process has more of it.
type losses struct {
	epoll *os.File
	known map[int]*os.File // the processes, by their pids
	group *os.File         // is readable when the group is out of memory; nil where the host's kernel kills the whole group by itself
}

// guard watches the processes that the sentry has by now, from the time on at which the agent answers: so the agent's are among them. It may be called again, for a
// machine whose processes are made later. A host that can't watch has the sentry notice a loss.
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
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go's poller waits, and it takes no thread
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &losses{epoll: os.NewFile(uintptr(fd), "losses"), known: map[int]*os.File{}}, nil
}

// process watches a process, unless it has ended or is watched already.
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

// await waits for something to happen, and tells whether it was a shortage of the group. It fails once the watch is closed.
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

// watchLosses ends the machine after a loss.
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
		return // who waits for the sentry knows why
	}
	s.mu.Lock()
	if s.reason == nil && !s.closing {
		s.reason = s.outOfMemory(&fault.Error{Op: "run machine", Kind: fault.Unavailable, Err: errLoss})
	}
	s.mu.Unlock()
	s.process.Strike() // who watches it tidies up
}

// lossPatience is how long a sentry whose processes end has to end itself: they end with it, and a moment sooner.
const lossPatience = 250 * time.Millisecond

// ends tells whether the sentry itself is about to end.
func (s *sandbox) ends() bool {
	select {
	case <-s.process.Done():
		return true
	case <-time.After(lossPatience):
		return exiting(s.process.PID())
	}
}

// exiting tells whether a process has begun to exit: one that has much memory takes a while.
func exiting(pid int) bool {
	const flags, isExiting = 6, 0x4 // the field after the name, and PF_EXITING of the kernel's: see proc_pid_stat(5)
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

var errLoss = errors.New("a process that gVisor's sentry runs the machine's programs in was killed")

// childrenOf gives the children of a process.
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
