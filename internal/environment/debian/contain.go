package debian

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// asRoot runs a program that wants to be root and that mounts and starts much, so that nothing of it outlives pyro, even one that is killed: it is the first
// process of a PID namespace and has mounts of its own. When it dies all goes, and no mount is ever below a folder that is tidied later. For an ordinary
// user it is root of a user namespace that has the user's range of subordinate users, too.
func asRoot(ctx context.Context, argv []string, set func(*exec.Cmd)) error {
	if os.Geteuid() == 0 {
		err := bound(ctx, argv, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}, set)
		if errors.Is(err, syscall.EPERM) {
			// A container whose root may make no namespaces may not mount either.
			err = bound(ctx, argv, &syscall.SysProcAttr{}, set)
		}
		return err
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return missing("newuidmap", "uidmap")
	}
	unshare := []string{"unshare", "--user", "--map-user=0", "--map-group=0", "--map-users=auto", "--map-groups=auto", "--setgroups=allow",
		"--mount", "--pid", "--fork", "--kill-child", "--"}
	return bound(ctx, append(unshare, argv...), &syscall.SysProcAttr{}, set)
}

// bound runs a program that is killed when ctx is done or pyro dies.
func bound(ctx context.Context, argv []string, attributes *syscall.SysProcAttr, set func(*exec.Cmd)) error {
	runtime.LockOSThread() // the parent whose death is told is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	attributes.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attributes
	cmd.WaitDelay = 5 * time.Second
	set(cmd)
	return cmd.Run()
}

// RemoveAll is os.RemoveAll for a folder in which Bootstrap has worked: for an ordinary user, some of what is there belongs to subordinate users.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	// It must not be cancelled with the work whose leavings these are.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if rootErr := asRoot(ctx, []string{"rm", "-rf", "--", dir}, func(*exec.Cmd) {}); rootErr != nil {
		return err
	}
	return os.RemoveAll(dir)
}
