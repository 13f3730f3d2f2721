package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Place is where an agent's processes run. Implementations are safe for concurrent use.
type Place interface {
	// Root is a descriptor of the root folder that the processes see. It stays open as long as the place is used, and changes when the place had
	// to be made again.
	Root() (int, error)
	// Do calls f where paths mean what they mean to the processes, on a thread from which a process that is started becomes one of them.
	// f must not start goroutines that rely on it.
	Do(f func() error) error
	// Start starts a program, which path, argv and attr are of as for os.StartProcess. It is called in Do, with an attr that a group has prepared.
	Start(path string, argv []string, attr *os.ProcAttr) (Process, error)
	// Group makes room for what one exec starts.
	Group() (Group, error)
	// Path gives the path in the place for one that a caller names: where the place has no /workspace of its own, that stands for what is in the volume.
	Path(name string) string
	// Env is what processes get beside what all of them get.
	Env() []string
	// Renew gives the machine its clock, random pool, machine-id, host name and network, all of which have been checked. Where the machine is the host it
	// changes nothing, and a network is errors.ErrUnsupported.
	Renew(*agentv1.RenewRequest) error
	Storage
}

// Storage is the file systems of a place: its root, and the volume where it has one. Errors of what is not mounted, and of everything after Quiesce, wrap
// [ErrNotReady].
type Storage interface {
	// Mount mounts them. What is mounted already stays as it is. Where the place begins with its root mounted, root does nothing.
	Mount(root, withVolume bool) (volume.Recovered, error)
	// Volume is the volume once it is mounted.
	Volume() (*volume.Volume, error)
	// Flush has everything that was written to the volume, and to the root where root is set, on the disk.
	Flush(root bool) error
	// Freeze stops all writing to them until Thaw. Where file systems can't be frozen it only flushes the volume, and frozen is false.
	Freeze(root, volume bool) (frozen bool, err error)
	// Hold has no process run until Release, which is idempotent, where the machine has a kernel of its own. Else it does nothing.
	Hold() error
	Release() error
	// Thaw lets writing go on to what is frozen.
	Thaw() error
	// Quiesce kills all processes, lets nothing begin any more, and sees to it that nothing is lost with the end of the machine. Idempotent.
	Quiesce(ctx context.Context) error
}

// What must be mounted is not, or not any more.
var (
	ErrNotReady = volume.ErrNotReady
	ErrNoRoot   = fmt.Errorf("%w: the machine's root is not mounted", ErrNotReady)
	ErrNoVolume = fmt.Errorf("%w: no volume is mounted", ErrNotReady)
	ErrQuiesced = volume.ErrClosed
)

// WorkspaceVariable is the environment variable that tells processes where their workspace is; Workspace is where it is in a machine.
const (
	WorkspaceVariable = "PYRO_WORKSPACE"
	Workspace         = "/workspace"
)

// Process is a process that has been started. It must be waited for, once.
type Process interface {
	// PID is its number in the agent's own PID namespace.
	PID() int
	// Wait waits for its end and reaps it.
	Wait() (syscall.WaitStatus, error)
}

// Group is all that one exec has started, however far it has removed itself from its parent.
type Group interface {
	// Prepare makes a process that is about to be started a member. It is called in the place.
	Prepare(*os.ProcAttr)
	// PID is the number by which the place's processes know one that the agent knows as pid; 0 where that is not known.
	PID(pid int) int
	// Kill kills every member. leader is the process that was started with Prepare, which may have ended.
	Kill(leader int) error
	// OutOfMemory tells whether the kernel killed something in the place for want of memory since the group was made.
	OutOfMemory() bool
	// Release forgets the group. Members that still run go on.
	Release()
}

// defaultEnv is what a process gets beside what it is asked to get. HOME is added for its user.
var defaultEnv = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// find finds a program as execvp does from the folder dir, in the PATH of the process's own environment. It must be called in the place.
func find(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", &os.PathError{Op: "exec", Path: name, Err: syscall.ENOENT}
	}
	if strings.Contains(name, "/") {
		return name, executable(name, dir)
	}
	denied := false
	for folder := range strings.SplitSeq(lookup(env, "PATH"), ":") {
		if folder == "" {
			folder = "."
		}
		candidate := folder + "/" + name
		switch err := executable(candidate, dir); {
		case err == nil:
			return candidate, nil
		case os.IsPermission(err):
			denied = true
		}
	}
	if denied {
		return "", &exec.Error{Name: name, Err: syscall.EACCES}
	}
	return "", &exec.Error{Name: name, Err: syscall.ENOENT}
}

// executable checks a program, whose path may be relative to dir.
func executable(path, dir string) error {
	var st unix.Stat_t
	from := path
	if path[0] != '/' {
		from = dir + "/" + path
	}
	if err := unix.Stat(from, &st); err != nil {
		return &os.PathError{Op: "exec", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return &os.PathError{Op: "exec", Path: path, Err: syscall.EACCES}
	}
	return nil
}

func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(env[i], "="); key == name {
			return value
		}
	}
	return ""
}
