// Package socket opens unix sockets in folders, for processes of the same user, and of root, and nobody else.
//
// The path of a folder may be longer than the address of a socket: they are found by the folder itself.
package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// address is good as long as the folder is open.
func address(folder *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)}
}

// Listen opens the socket of a name in a folder. Closing the listener removes it.
func Listen(folder, name string) (net.Listener, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := net.ListenUnix("unix", address(f, name))
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // its name is that of a descriptor
	path := filepath.Join(folder, name)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return &listener{l, path}, nil
}

// listener accepts those who may.
type listener struct {
	*net.UnixListener
	path string
}

// Accept gives the next connection of a process that may connect. Others are closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if Allowed(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// Close removes the socket too.
func (l *listener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(l.UnixListener.Close(), err)
}

// Allowed tells whether the other end is a process of this user or of root.
func Allowed(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && failed == nil && (int(peer.Uid) == os.Getuid() || peer.Uid == 0)
}

// Dial connects to the socket of a name in a folder. The error is the host's own: ENOENT where there is none, ECONNREFUSED where nobody listens any more. The caller
// asks Allowed before it says anything.
func Dial(folder, name string) (*net.UnixConn, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.DialUnix("unix", nil, address(f, name))
}
