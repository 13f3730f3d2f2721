package guest

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// keeperReady is the descriptor on which the keeper says that the namespace is ready, or why it is not.
const keeperReady = 3

// Keeper is PID 1 of the namespaces in which the user's processes run. It was started in new PID and mount namespaces; it makes them ready, says so,
// and only reaps. It never returns.
func Keeper() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	ready := os.NewFile(keeperReady, "ready")
	if err := enterEnvironment(); err != nil {
		fmt.Fprintf(ready, "%v", err)
		os.Exit(1)
	}
	fmt.Fprint(ready, "ok")
	ready.Close()
	// Nothing of the initramfs stays open: whoever looks into this process finds the environment.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		for fd := range 3 {
			unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	for ; ; <-ended {
		for {
			var status syscall.WaitStatus
			if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}

// enterEnvironment makes the environment the root of this process's mount namespace and mounts what belongs over it.
func enterEnvironment() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := os.Chdir(envRoot); err != nil {
		return err
	}
	// The initramfs can't be pivoted away from: the environment is moved over it.
	if err := unix.Mount(envRoot, "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the environment: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := mountAll(userMounts); err != nil {
		return err
	}
	if err := makeDevices("/dev"); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/lock", 0o1777); err != nil {
		return err
	}
	return nil
}
