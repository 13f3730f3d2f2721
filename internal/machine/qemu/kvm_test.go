package qemu

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestKVMOfOwner checks that an ordinary user who may open the device can use it, even if its group
// can't. QEMU does not run as root, so root can't use such a device.
func TestKVMOfOwner(t *testing.T) {
	testenv.NeedsRoot(t, "become an ordinary user")
	before := kvmDevice
	defer func() { kvmDevice = before }()
	dir, err := os.MkdirTemp("", "pyro-kvm-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	kvmDevice = filepath.Join(dir, "kvm")
	if err := os.WriteFile(kvmDevice, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := kvmUsable(); fault.KindOf(err) != fault.Permission {
		t.Errorf("root: got %v", err)
	}
	for _, path := range []string{dir, kvmDevice} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, so only this goroutine changes its user
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			result <- errno
			return
		}
		result <- kvmUsable()
	}()
	if err := <-result; err != nil {
		t.Errorf("the owner: got %v", err)
	}
}
