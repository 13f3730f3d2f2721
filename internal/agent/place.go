package agent

import (
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

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
	// Renew gives the machine its clock, random pool, machine-id and host name. Where the machine is the host it changes nothing.
	Renew(*agentv1.RenewRequest) error
}

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
