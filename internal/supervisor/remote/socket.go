package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/store"
)

// address gives the address of the socket in a folder, however long the folder's path is, as long as the folder stays open.
func address(folder *os.File) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socketName)}
}

// Listen opens the socket of a workspace. Only processes of the same user, and of root, get through to it.
func Listen(f Folder) (net.Listener, error) {
	folder, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	l, err := net.ListenUnix("unix", address(folder))
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // its name is that of a descriptor
	if err := os.Chmod(f.path(socketName), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return &listener{l, f.path(socketName)}, nil
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
		if allowed(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// Close removes the socket too.
func (l *listener) Close() error {
	return errors.Join(l.UnixListener.Close(), remove(l.path))
}

// allowed tells whether the other end is a process of this user or of root.
func allowed(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && failed == nil && (int(peer.Uid) == os.Getuid() || peer.Uid == 0)
}

// connectPatience is how long a supervisor that lives may take to open its socket: it has started a machine by then, which may take long the first time.
const connectPatience = 3 * time.Minute

// reach connects to the supervisor of a workspace. Precondition where there is none.
func reach(ctx context.Context, f Folder) (net.Conn, error) {
	folder, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stopped(f)
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	for began := time.Now(); ; {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", address(folder).Name)
		if err == nil {
			if !allowed(conn.(*net.UnixConn)) {
				conn.Close()
				return nil, fault.New(fault.Permission, "use workspace", filepath.Base(string(f)), "its socket is another user's")
			}
			return conn, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if !f.Running() {
			return nil, stopped(f)
		}
		if time.Since(began) > connectPatience {
			return nil, fault.New(fault.Unavailable, "use workspace", filepath.Base(string(f)), "its supervisor does not answer")
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stopped says that there is no machine to do it in.
func stopped(f Folder) error {
	id := filepath.Base(string(f))
	err := fault.New(fault.Precondition, "use workspace", id, "it is stopped")
	if strings.HasPrefix(id, store.VMPrefix) { // machines have no command
		return err
	}
	return err.WithHint("pyro workspace start %s", id)
}

// Kill kills the supervisor of a workspace, and with it the machine. It is for one that does not answer, be it that its socket is gone: its lock tells who it is.
func (f Folder) Kill() error {
	pid, err := flock.Holder(f.path(supervisorLock))
	if err != nil && !f.Running() {
		return nil
	}
	if err != nil {
		return fault.New(fault.Unavailable, "end workspace", filepath.Base(string(f)), "its supervisor does not answer and can't be found: %w", err)
	}
	return os.NewSyscallError("kill", unix.Kill(pid, unix.SIGKILL))
}
