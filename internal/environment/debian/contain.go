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

// asRoot runs a program that needs root, mounts file systems and starts many processes. The program
// is PID 1 of a new PID namespace, so none of its processes outlive it. It has its own mount
// namespace, so that a later cleanup does not see its mounts. It is killed when pyro dies. For an
// ordinary user, the program is root in a user namespace with the user's subordinate IDs, see
// [CheckUser].
func asRoot(ctx context.Context, argv []string, set func(*exec.Cmd)) error {
	if os.Geteuid() == 0 {
		err := runProcess(ctx, argv, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}, set)
		if errors.Is(err, syscall.EPERM) {
			// If the root user of a container can't create namespaces, it can't mount either.
			err = runProcess(ctx, argv, &syscall.SysProcAttr{}, set)
		}
		return err
	}
	unshare := []string{"unshare", "--user", "--map-user=0", "--map-group=0", "--map-users=auto", "--map-groups=auto", "--setgroups=allow",
		"--mount", "--pid", "--fork", "--kill-child", "--"}
	return runProcess(ctx, append(unshare, argv...), &syscall.SysProcAttr{}, set)
}

// runProcess runs a program. It kills the program if ctx is cancelled or pyro dies.
func runProcess(ctx context.Context, argv []string, attributes *syscall.SysProcAttr, set func(*exec.Cmd)) error {
	runtime.LockOSThread() // The death signal is sent when the parent thread ends.
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	attributes.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attributes
	cmd.WaitDelay = 5 * time.Second
	set(cmd)
	return cmd.Run()
}

// RemoveAll is like os.RemoveAll, but for a directory that Bootstrap has used. If pyro runs as an
// ordinary user, files in the directory can belong to subordinate users.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	// The cleanup must run even if the context of the work is cancelled.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if rootErr := asRoot(ctx, []string{"rm", "-rf", "--", dir}, func(*exec.Cmd) {}); rootErr != nil {
		return err
	}
	return os.RemoveAll(dir)
}
