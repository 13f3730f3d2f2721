// Package socket provides unix sockets that only processes of the same user and of root can use.
//
// The path of a folder can exceed the maximum length of a socket address. So the address of a
// socket contains the folder's descriptor instead of its path.
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

// address returns the address of a socket. It is valid while the folder is open.
func address(folder *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)}
}

// Listen creates a socket in a folder. Closing the listener removes the socket.
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
	l.SetUnlinkOnClose(false) // the address contains a descriptor, so Close removes the socket instead
	path := filepath.Join(folder, name)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return &listener{l, path}, nil
}

// listener accepts connections only from allowed processes.
type listener struct {
	*net.UnixListener
	path string
}

// Accept returns the next connection from an allowed process. It closes other connections.
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

// Close closes the listener and removes the socket.
func (l *listener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(l.UnixListener.Close(), err)
}

// Allowed reports whether the peer is a process of this user or of root.
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

// Dial connects to a socket in a folder. ENOENT: the socket does not exist. ECONNREFUSED: no
// process listens on it. Before callers send anything, they must check Allowed.
func Dial(folder, name string) (*net.UnixConn, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.DialUnix("unix", nil, address(f, name))
}
