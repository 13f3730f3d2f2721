package agent

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/program"
)

// openTerminal creates a PTY. It returns the controlling end and the end for processes. Call it in
// ExecEnv.Do. openTerminal does not use File.Fd, which would disable read deadlines of the
// controlling end.
func openTerminal() (controlling, tty *os.File, err error) {
	controlling, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number uint32
	err = withDescriptor(controlling, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		}
		return os.NewSyscallError("ioctl", err)
	})
	if err == nil {
		tty, err = os.OpenFile("/dev/pts/"+strconv.FormatUint(uint64(number), 10), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		controlling.Close()
		return nil, nil, err
	}
	return controlling, tty, nil
}

// setSize sets the size of a terminal. The kernel then sends SIGWINCH to the terminal's foreground
// group.
func setSize(terminal *os.File, cols, rows uint32) error {
	return withDescriptor(terminal, func(fd int) error {
		return os.NewSyscallError("ioctl", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}))
	})
}

// foreground returns the foreground process group of a terminal, or 0 if there is none. known is
// false if the kernel does not report the group. gVisor reports it only to processes of the
// terminal.
func foreground(terminal *os.File) (group int, known bool) {
	err := withDescriptor(terminal, func(fd int) (err error) {
		// The result is relative to the PID namespace of the caller. The agent is outside of the
		// namespace of the processes, so it gets a number that it can use.
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return max(group, 0), err == nil
}

// lineLimit returns the length of the longest line that a terminal accepts, or 0 if there is no
// limit, because its program reads single keys.
func lineLimit(terminal *os.File) (limit uint32) {
	if terminal == nil {
		return 0
	}
	withDescriptor(terminal, func(fd int) error {
		settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && settings.Lflag&unix.ICANON != 0 {
			limit = program.LineLimit
		}
		return err
	})
	return limit
}

// newestGroup returns the process group of a session that was started last. If the foreground group
// is unknown, the newest group is most likely the foreground group.
func newestGroup(session int) int {
	last := member{group: session}
	for _, m := range members(session) {
		if m.group > 0 && m.began >= last.began {
			last = m
		}
	}
	return last.group
}

// member is a process of a session.
type member struct {
	group   int
	running bool   // the process is in state R
	began   uint64 // start time, in clock ticks since boot
}

// members returns the processes of a session that the agent can see in /proc.
func members(session int) (all []member) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
		fields := strings.Fields(rest) // field 3 and later of proc_pid_stat(5): state, ppid, pgrp, session, …, starttime
		if len(fields) < 20 || fields[3] != strconv.Itoa(session) {
			continue
		}
		group, err := strconv.Atoi(fields[2])
		began, failed := strconv.ParseUint(fields[19], 10, 64)
		if err == nil && failed == nil {
			all = append(all, member{group, fields[0] == "R", began})
		}
	}
	return all
}

// withDescriptor calls f with the descriptor of an open file.
func withDescriptor(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
