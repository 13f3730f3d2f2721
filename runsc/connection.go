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
	files  []*os.File // that came last, and have not been taken
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
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
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
		c.keepFiles(rights[:held])
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// maxFiles is how many files may come at once.
const maxFiles = 3

func (c *connection) keepFiles(rights []byte) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return
	}
	for _, f := range c.takeFiles() {
		f.Close()
	}
	for _, fd := range fds {
		c.files = append(c.files, os.NewFile(uintptr(fd), "file"))
	}
}

// takeFiles gives the files that came with what was read last. The caller closes them.
func (c *connection) takeFiles() []*os.File {
	files := c.files
	c.files = nil
	return files
}
