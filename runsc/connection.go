package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// connection is a stream socket that can also receive open files. It uses only system calls that
// the sentry's filter allows.
type connection struct {
	socket *os.File
	raw    syscall.RawConn
	files  []*os.File // files of the last message, until takeFiles
}

// connect creates a connection from a file descriptor.
func connect(fd int) (*connection, error) {
	// Go's poller needs a non-blocking descriptor; a read then needs no thread.
	if err := unix.SetNonblock(fd, true); err != nil {
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

// maxFiles is the maximum number of open files in one message.
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

// takeFiles returns the files of the last message. The caller closes them.
func (c *connection) takeFiles() []*os.File {
	files := c.files
	c.files = nil
	return files
}
