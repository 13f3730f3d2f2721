package agent

import (
	"errors"
	"os"
	"strconv"

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

// foreground is the process group in the foreground of a terminal, 0 for none.
func foreground(terminal *os.File) (group int) {
	withDescriptor(terminal, func(fd int) (err error) {
		// The number is that of the namespace of whoever asks; the controlling end's owner is outside of the processes' own and sees the right one.
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return max(group, 0)
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
