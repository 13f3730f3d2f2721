package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// started starts a program that only sleeps.
func started(t *testing.T, attr *syscall.SysProcAttr) *Process {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr, cmd.Dir = attr, "/"
	p, err := Start("sleep", cmd)
	if errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// TestOpen opens the memory of programs with different confinements. As root, it repeats this
// without CAP_SYS_PTRACE.
func TestOpen(t *testing.T) {
	uid, gid := os.Getuid(), os.Getgid()
	plain := &syscall.SysProcAttr{Setsid: true}
	if uid == 0 {
		uid, gid = User("test"), User("test")
		plain.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	for name, attr := range map[string]*syscall.SysProcAttr{"confined": Confined(uid, gid, unix.CAP_SYS_CHROOT), "plain": plain} {
		t.Run(name, func(t *testing.T) {
			p := started(t, attr)
			open := func() {
				t.Helper()
				for file, flags := range map[string]int{"maps": os.O_RDONLY, "mem": os.O_RDWR, "pagemap": os.O_RDONLY} {
					f, err := p.Open(file, flags)
					if err != nil {
						t.Error(err)
						continue
					}
					f.Close()
				}
			}
			open()
			if os.Getuid() != 0 {
				return
			}
			defer powerless(t)()
			if f, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID())); name == "plain" && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%v, %v: it has that power", f, err)
			}
			open()
			status, err := os.ReadFile("/proc/thread-self/status")
			if err != nil || !strings.Contains(string(status), "\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n") {
				t.Errorf("it is not root again: %v\n%s", err, status)
			}
		})
	}
}

// powerless removes CAP_SYS_PTRACE from this thread. The function end restores it.
func powerless(t *testing.T) (end func()) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		t.Fatal(err)
	}
	has := had
	has[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	if err := unix.Capset(&header, &has[0]); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Capset(&header, &had[0]); err != nil {
			t.Fatal(err) // the goroutine stays locked to the thread, so the thread ends with the goroutine
		}
		runtime.UnlockOSThread()
	}
}
