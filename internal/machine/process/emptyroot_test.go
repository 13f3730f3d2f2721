package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// emptied starts a program in an emptied namespace, with an open folder as its file 3.
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

// TestStartEmptied looks at a program that still has the host's files as its root: no mount namespace has them, its own is empty, and it can't change that.
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
	if mounts, err := os.ReadFile(proc + "mountinfo"); err != nil || len(mounts) > 0 { // those below its root, which is in no namespace
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
	if more, err := os.Readlink(proc + "fd/4"); err == nil {
		t.Errorf("it has %s open", more)
	}
}

func TestStartEmptiedFails(t *testing.T) {
	if _, err := emptied(t, "/no/such/program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := emptied(t, "/etc/passwd"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that is no program: %v", err)
	}
}
