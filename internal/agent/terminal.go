package agent

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openTerminal makes a PTY and gives its controlling end and the one for processes. It must be called in the place. The controlling end stays with Go's
// poller, from which File.Fd would take it: so a read of it can be given a deadline.
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

// setSize sets the size of a terminal, of which those in its foreground are told.
func setSize(terminal *os.File, cols, rows uint32) error {
	return withDescriptor(terminal, func(fd int) error {
		return os.NewSyscallError("ioctl", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}))
	})
}

// foreground is the process group in the foreground of a terminal, 0 for none. gVisor's kernel tells it nobody but the terminal's own processes: it is not known then.
func foreground(terminal *os.File) (group int, known bool) {
	err := withDescriptor(terminal, func(fd int) (err error) {
		// The number is that of the namespace of whoever asks; the controlling end's owner is outside of the processes' own and sees the right one.
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return max(group, 0), err == nil
}

// typeSignal has the terminal send a signal to its foreground as the key does that stands for it, and tells whether there is such a key.
func typeSignal(terminal *os.File, sig syscall.Signal) bool {
	key, ok := map[syscall.Signal]int{syscall.SIGINT: unix.VINTR, syscall.SIGQUIT: unix.VQUIT, syscall.SIGTSTP: unix.VSUSP}[sig]
	if !ok {
		return false
	}
	var char byte
	err := withDescriptor(terminal, func(fd int) error {
		settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && settings.Lflag&unix.ISIG != 0 {
			char = settings.Cc[key]
		}
		return err
	})
	if err != nil || char == 0 {
		return false
	}
	_, err = terminal.Write([]byte{char})
	return err == nil
}

// youngest is the process group of a session that was started last, as far as can be seen: where the foreground is not known, that is likely it.
func youngest(session int) int {
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
	running bool   // it waits for nothing
	began   uint64 // in the kernel's ticks
}

// members are the processes of a session that can be seen.
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
		fields := strings.Fields(rest) // from the third on, see proc_pid_stat(5): state, ppid, pgrp, session, …, starttime
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
