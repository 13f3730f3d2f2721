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

// ExecEnv is the environment of the processes that the agent runs. Implementations are safe for
// concurrent use.
type ExecEnv interface {
	// Root returns a descriptor of the root folder that processes see. The descriptor stays open
	// while the environment is in use. After the environment was created again, Root returns a new
	// descriptor.
	Root() (int, error)
	// Do calls f on a thread that sees the same paths as the processes. Processes that f starts
	// become part of the environment. If f starts goroutines, they do not run on this thread.
	Do(f func() error) error
	// Start starts a program like os.StartProcess. Call it in Do, after Group.Prepare has changed
	// attr.
	Start(path string, argv []string, attr *os.ProcAttr) (Process, error)
	// Group creates the group for the processes of one exec.
	Group() (Group, error)
	// Path translates a caller's path to a path in the environment. If the environment has no
	// /workspace of its own, Path maps /workspace to the volume.
	Path(name string) string
	// Files resolves a caller's absolute path to a folder and a path below it. Links and ".." must
	// be resolved within the folder. The caller must call the function done when it no longer uses
	// the folder. On the host, only paths in the volume are allowed; for others, the error is
	// [ErrHostPath].
	Files(name string) (root int, path string, done func(), err error)
	// Env returns variables for all processes, in addition to defaultEnv.
	Env() []string
	// Renew sets the clock, entropy, machine ID, host name and network of the machine. The agent
	// has already checked these values. On the host, Renew changes nothing, and returns
	// errors.ErrUnsupported if the request has a network.
	Renew(*agentv1.RenewRequest) error
	Storage
}

// Storage manages the file systems of a machine: its root, and its volume if there is one. If a
// call needs a file system that is not mounted, the error wraps [ErrNotReady]. After Quiesce all
// errors wrap it.
type Storage interface {
	// Mount mounts the root and the volume. File systems that are already mounted stay mounted. If
	// the machine starts with a mounted root, the argument root has no effect.
	Mount(root, withVolume bool) (volume.Recovered, error)
	// Volume returns the mounted volume.
	Volume() (*volume.Volume, error)
	// Flush writes all data of the volume to its disk. If root is true, it also writes the data of
	// the root.
	Flush(root bool) error
	// Freeze stops writes to the file systems until Thaw. If the file systems can't be frozen,
	// Freeze only flushes the volume and returns false.
	Freeze(root, volume bool) (frozen bool, err error)
	// Hold stops all processes until Release, if the machine has its own kernel. Otherwise Hold
	// does nothing.
	Hold() error
	Release() error
	// Thaw allows writes to frozen file systems again.
	Thaw() error
	// Quiesce kills all processes, rejects new ones and flushes all file systems, so that the
	// machine can be stopped without data loss. It is idempotent.
	Quiesce(ctx context.Context) error
}

// Errors for file systems that are not mounted, or no longer mounted.
var (
	ErrNotReady = volume.ErrNotReady
	ErrNoRoot   = fmt.Errorf("%w: the machine's root is not mounted", ErrNotReady)
	ErrNoVolume = fmt.Errorf("%w: no volume is mounted", ErrNotReady)
	ErrQuiesced = volume.ErrClosed
)

// ErrHostPath means that a path is outside of the volume. Paths outside are forbidden if the agent
// runs on the host itself.
var ErrHostPath = fmt.Errorf("it is not in %s, and host_compat allows no other paths, because they belong to the host", Workspace)

// WorkspaceVariable is the environment variable that contains the path of the workspace. Workspace
// is that path in machines.
const (
	WorkspaceVariable = "PYRO_WORKSPACE"
	Workspace         = "/workspace"
)

// Process is a started process. Callers must call Wait exactly once.
type Process interface {
	// PID returns the PID in the namespace of the agent.
	PID() int
	// NamespacePID returns the PID that the process itself sees.
	NamespacePID() int
	// Wait waits until the process ends, and reaps it.
	Wait() (syscall.WaitStatus, error)
}

// Group is the set of all processes that one exec has started, including daemons.
type Group interface {
	// Prepare changes attr so that the process started with it becomes a member of the group. Call
	// it in ExecEnv.Do.
	Prepare(*os.ProcAttr)
	// Kill kills all members. leader is the PID of the process that was started with Prepare. That
	// process can already have ended.
	Kill(leader int) error
	// Members returns the PIDs of the members, in the namespace of the agent. leader is the same as
	// for Kill.
	Members(leader int) ([]int, error)
	// OutOfMemory reports whether the kernel has killed a process because memory was exhausted. It
	// counts all processes of the environment since the group was created.
	OutOfMemory() bool
	// Release frees the resources of the group. Its members keep running.
	Release()
}

// defaultEnv has the environment variables of all processes. Processes also get the HOME of their
// user.
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

// find finds a program in the same way as execvp. It uses PATH from env, and relative paths start
// at the folder dir. Call it in ExecEnv.Do.
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

// executable returns an error unless path is an executable file. path can be relative to dir.
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
