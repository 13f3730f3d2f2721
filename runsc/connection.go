package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// connection is a stream socket over which files come too. It is read with what the sentry's system call filter lets pass.
type connection struct {
	socket *os.File
	raw    syscall.RawConn
	file   *os.File // that came last, and has not been taken
}

// connect makes one of a descriptor.
func connect(fd int) (*connection, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go's poller waits, and a read takes no thread
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "control")
	raw, err := socket.SyscallConn()
	return &connection{socket: socket, raw: raw}, err
}

func (c *connection) Write(p []byte) (int, error) { return c.socket.Write(p) }

func (c *connection) Read(p []byte) (n int, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	var held int
	waited := c.raw.Read(func(fd uintptr) bool {
		for {
			n, held, _, _, err = unix.Recvmsg(int(fd), p, rights, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("recvmsg", err)
	case held > 0:
		c.keepFile(rights[:held])
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *connection) keepFile(rights []byte) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return
	}
	c.file = os.NewFile(uintptr(fds[0]), "file")
}

// takeFile gives the file that came with what was read last, and nil where there was none. The caller closes it.
func (c *connection) takeFile() *os.File {
	f := c.file
	c.file = nil
	return f
}
