package remote

import (
	"context"
	"errors"
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
	"github.com/pyro-mcp/pyro/internal/socket"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Listen opens the socket of a workspace. Only processes of the same user or of root can connect.
func Listen(f Folder) (net.Listener, error) { return socket.Listen(string(f), socketName) }

// connectTimeout is how long a running supervisor can take to open its socket. It first starts a
// machine, which is slow the first time.
const connectTimeout = 3 * time.Minute

// reach connects to the supervisor of a workspace. The error has kind Precondition if there is no
// supervisor.
func reach(ctx context.Context, f Folder) (net.Conn, error) {
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil, stopped(f)
	}
	for began := time.Now(); ; {
		conn, err := socket.Dial(string(f), socketName)
		if err == nil {
			if !socket.Allowed(conn) {
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
		if time.Since(began) > connectTimeout {
			return nil, fault.New(fault.Unavailable, "use workspace", filepath.Base(string(f)), "its supervisor does not answer")
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stopped returns the error of operations that need a running machine.
func stopped(f Folder) error {
	id := filepath.Base(string(f))
	err := fault.New(fault.Precondition, "use workspace", id, "it is stopped")
	if strings.HasPrefix(id, store.VMPrefix) { // there is no command that starts a VM
		return err
	}
	return err.WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", id))
}

// Kill kills the supervisor of a workspace and thereby its machine. It works even if the supervisor
// does not answer or its socket is missing, because it finds the PID through the supervisor's lock.
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
