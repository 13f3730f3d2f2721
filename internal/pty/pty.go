// Package pty opens pseudo-terminals and examines and changes them through their controlling end.
//
// A pseudo-terminal has two ends. Programs use one of them as their terminal. The owner reads the
// output and types the input at the other one, the controlling end. See pty(7).
//
// No function here uses [os.File.Fd], which would disable the deadlines of the file. All functions
// except [Read] return at once. All can be called at the same time.
package pty

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open opens a new pseudo-terminal. The caller must close both ends. The controlling end supports
// deadlines.
func Open() (controlling, tty *os.File, err error) {
	controlling, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number uint32
	err = with(controlling, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		}
		return err
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

// Read reads output at the controlling end. It waits for output as [os.File.Read] does. After all
// programs have closed the terminal and all their output was read, it returns EIO.
//
// Linux itself can return EIO too early. It first looks for output, and then whether the terminal
// is closed. If a program writes and closes the terminal in between, the read returns EIO and only
// the next read returns the output. So Read reads again after EIO.
func Read(controlling io.Reader, b []byte) (n int, err error) {
	n, err = controlling.Read(b)
	if errors.Is(err, unix.EIO) {
		n, err = controlling.Read(b)
	}
	return n, err
}

// SetSize sets the number of columns and rows. The kernel then sends SIGWINCH to the foreground
// process group. Either end can be passed.
func SetSize(end *os.File, cols, rows int) error {
	return with(end, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// Settings returns the settings that programs have made, such as the echo. Either end can be
// passed.
func Settings(end *os.File) (settings *unix.Termios, err error) {
	err = with(end, func(fd int) (err error) {
		settings, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return settings, err
}

// Foreground returns the foreground process group, or 0 if there is none. known is false if the
// kernel does not report the group. gVisor reports it only to processes of the terminal.
func Foreground(controlling *os.File) (group int, known bool) {
	err := with(controlling, func(fd int) (err error) {
		// The result is relative to the PID namespace of the caller. If the processes are in a
		// namespace below, the caller gets a number that it can use.
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return max(group, 0), err == nil
}

// Unread returns how many bytes of input a program could read now, or 0 if that is unknown.
func Unread(controlling *os.File) (n int) {
	asProgram(controlling, func(tty int) (err error) {
		n, err = unix.IoctlGetInt(tty, unix.TIOCINQ)
		return err
	})
	return n
}

// DiscardInput discards the input that programs have not read. It ignores errors: then the input
// is kept.
func DiscardInput(controlling *os.File) {
	// The kernel passes input to the terminal with a delay. Until then, it is output of the
	// controlling end.
	with(controlling, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH) })
	asProgram(controlling, func(tty int) error { return unix.IoctlSetInt(tty, unix.TCFLSH, unix.TCIFLUSH) })
}

// asProgram calls f with a descriptor of the end that programs use. It opens this end only briefly,
// because a terminal that is open somewhere does not hang up.
func asProgram(controlling *os.File, f func(tty int) error) error {
	return with(controlling, func(fd int) error {
		tty, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		defer unix.Close(int(tty))
		return f(int(tty))
	})
}

// with calls f with the descriptor of an open file.
func with(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, os.NewSyscallError("ioctl", failed))
}
