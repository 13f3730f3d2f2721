package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// emptied starts a program in an empty mount namespace. Descriptor 3 of the program is an open
// folder.
func emptied(t *testing.T, path string, args ...string) (*Process, error) {
	t.Helper()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = User("test"), User("test")
	}
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr, cmd.Dir, cmd.ExtraFiles = Confined(uid, gid, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN), "/", []*os.File{folder}
	p, err := StartEmptied("it", cmd, FirstFD)
	if errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, err)
	}
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, err
}

// TestStartEmptied checks that the program has only CAP_SYS_CHROOT, that its mount namespace is
// empty, and that it can't write to the empty folder.
func TestStartEmptied(t *testing.T) {
	p, err := emptied(t, "/bin/sleep", "300")
	if err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d/", p.PID())
	status, err := os.ReadFile(proc + "status")
	if err != nil || !strings.Contains(string(status), "\nCapPrm:\t0000000000040000\nCapEff:\t0000000000040000\n") || !strings.Contains(string(status), "\nCapAmb:\t0000000000040000\n") {
		t.Errorf("%v\n%s", err, status)
	}
	// The mounts below the program's root are in no mount namespace.
	if mounts, err := os.ReadFile(proc + "mountinfo"); err != nil || len(mounts) > 0 {
		t.Errorf("%v\n%s", err, mounts)
	}
	if found, err := os.ReadDir(proc + "fd/3"); err != nil || len(found) > 0 {
		t.Errorf("its folder holds %v, %v", found, err)
	}
	if err := os.WriteFile(proc+"fd/3/new", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("its folder can be written to: %v", err)
	}
	if target, err := os.Readlink(proc + "exe"); err != nil || !strings.HasSuffix(target, "bin/sleep") {
		t.Errorf("it is %q, %v", target, err)
	}
	// While the program starts, its loader opens libraries.
	more, err := os.Readlink(proc + "fd/4")
	for deadline := time.Now().Add(testenv.Patience); err == nil && time.Now().Before(deadline); more, err = os.Readlink(proc + "fd/4") {
		time.Sleep(time.Millisecond)
	}
	if err == nil {
		t.Errorf("it has %s open", more)
	}
}

func TestStartEmptiedFails(t *testing.T) {
	if _, err := emptied(t, "/no/such/program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing program: got %v", err)
	}
	if _, err := emptied(t, "/etc/passwd"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("file that is not executable: got %v", err)
	}
}
