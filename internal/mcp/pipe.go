package mcp

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// nonblocking returns a reader that uses the runtime's poller, if in is a pipe or a socket. Such a
// reader has less latency than a blocking read, which occupies a thread. The function done restores
// the mode of the file, because other processes might share the file.
func nonblocking(in io.Reader, out io.Writer) (_ io.Reader, done func()) {
	file, ok := in.(*os.File)
	if !ok {
		return in, func() {}
	}
	var input, output unix.Stat_t
	var flags, fd int
	raw, err := file.SyscallConn()
	if err == nil {
		err = raw.Control(func(from uintptr) {
			unix.Fstat(int(from), &input)
			flags, _ = unix.FcntlInt(from, unix.F_GETFL, 0)
			fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
		})
	}
	if err != nil {
		return in, func() {}
	}
	if o, ok := out.(*os.File); ok {
		if raw, err := o.SyscallConn(); err == nil {
			raw.Control(func(to uintptr) { unix.Fstat(int(to), &output) })
		}
	}
	kind := input.Mode & unix.S_IFMT
	same := input.Dev == output.Dev && input.Ino == output.Ino // nonblocking mode would also affect writes
	if kind != unix.S_IFIFO && kind != unix.S_IFSOCK || same || flags&unix.O_NONBLOCK != 0 || unix.SetNonblock(fd, true) != nil {
		unix.Close(fd)
		return in, func() {}
	}
	again := os.NewFile(uintptr(fd), file.Name())
	return again, func() {
		unix.SetNonblock(fd, false)
		again.Close()
	}
}
