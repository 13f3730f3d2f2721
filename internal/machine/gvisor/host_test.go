//go:build machine

package gvisor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// again runs a test in a new process with the given attributes, such as fewer rights. If the test
// does not pass there, it reports the output.
func again(t *testing.T, test string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+test)) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestForbiddenUserNamespaces checks that Prove fails with a hint if the host forbids user
// namespaces.
func TestForbiddenUserNamespaces(t *testing.T) {
	const inside = "PYRO_TEST_FORBIDDEN"
	if os.Getenv(inside) == "" {
		again(t, t.Name(), &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}, inside+"=1")
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		testenv.Lacks(t, err)
	}
	dir := t.TempDir()
	err := driverIn(t, dirs.Dirs{Cache: dir, State: dir}).Prove(t.Context(), nil)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "user namespaces") || !strings.Contains(fault.HintOf(err), "sysctl") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// TestCoveredProc checks that machines start if other mounts cover parts of /proc, as in
// containers. The kernel then forbids a new mount of /proc.
func TestCoveredProc(t *testing.T) {
	const inside = "PYRO_TEST_COVERED"
	testenv.NeedsRoot(t, "cover a part of /proc")
	if os.Getenv(inside) == "" {
		again(t, t.Name(), &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, inside+"=1")
		return
	}
	if err := syscall.Mount("/proc/sys", "/proc/sys", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	anotherProc := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true")
	if out, err := anotherProc.CombinedOutput(); err == nil {
		t.Fatalf("a new /proc can be mounted here: %s", out)
	}
	d, root := driverIn(t, machinetest.SharedDirs(t)), machinetest.Debian(t)
	start(t, d, specOf(t, root)).shell(t, "true")
	startStored(t, d, specOf(t, root), machine.TreeStorage{Folder: t.TempDir()}).shell(t, "touch "+workspace+"/file")
}

// TestOrdinaryUser checks that machines start without privileges.
func TestOrdinaryUser(t *testing.T) {
	const inside, nobody = "PYRO_TEST_ORDINARY", 65534
	if folder := os.Getenv(inside); folder != "" {
		d := driverIn(t, dirs.Dirs{Cache: filepath.Join(folder, "cache"), State: folder})
		if err := d.Prove(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		spec := specOf(t, machine.Root{Digest: "sha256:test", Image: filepath.Join(folder, "image")})
		s := start(t, d, spec)
		if got := s.shell(t, "id -u; cat /etc/debian_version >/dev/null && touch /etc/mine && echo mine"); got != "0\nmine" {
			t.Errorf("got %q", got)
		}
		s.Close()
		storageOfAnOrdinaryUser(t, d, spec)
		return
	}
	testenv.NeedsRoot(t, "become an ordinary user")
	folder, err := os.MkdirTemp("", "pyro-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	program, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := program.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	copyTo := func(name string, from io.Reader, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(folder, name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
		if err == nil {
			_, err = io.Copy(f, from)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := func(path string) *os.File {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	image, err := os.Create(filepath.Join(folder, "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	if err := disk.Copy(image, open(machinetest.Debian(t).Image)); err != nil { // keeps the holes of the image
		t.Fatal(err)
	}
	helper := copyTo(HelperName, open(os.Getenv("PYRO_RUNSC")), 0o755)
	guestProgram := copyTo("pyro-guest", bytes.NewReader(agent), 0o755)
	if err := errors.Join(os.Chmod(folder, 0o755), os.Chown(folder, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	again(t, t.Name(), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
		inside+"="+folder, "TMPDIR="+folder, "PYRO_RUNSC="+helper, "PYRO_GUEST="+guestProgram, "HOME="+folder)
}

// storageOfAnOrdinaryUser tests the storage of a machine that an ordinary user starts. All files of
// the volume belong to this user, who is root inside the machine, and can have no other owner.
// Files of a saved root can have any owner.
func storageOfAnOrdinaryUser(t *testing.T, d *Driver, spec machine.Spec) {
	t.Helper()
	folder, kept := t.TempDir(), filepath.Join(t.TempDir(), "root")
	s := startStored(t, d, spec, machine.TreeStorage{Folder: folder})
	got := s.shell(t, "cd "+workspace+` && echo text >file && chmod 000 file && cat file && stat -c %u:%g file && ! chown 1:1 file 2>/dev/null && mkdir a && mv file a &&
		echo root >/etc/mine && chown 12:34 /etc/mine`)
	if got != "text\n0:0" {
		t.Errorf("got %q", got)
	}
	if info, err := os.Lstat(s.host("a/file")); err != nil || info.Mode() != 0 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		t.Errorf("%v, %v", info, err)
	}
	checkConfinement(t, s.sandbox().gofer.PID(), 1<<unix.CAP_CHOWN|1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_FOWNER|1<<unix.CAP_FSETID)
	if err := errors.Join(s.sandbox().Pause(t.Context()), s.sandbox().SaveRoot(t.Context(), kept)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = startStored(t, d, spec, machine.TreeStorage{Folder: folder, Root: kept})
	if got := s.shell(t, "stat -c %u:%g /etc/mine; cat /etc/mine "+workspace+"/a/file"); got != "12:34\nroot\ntext" {
		t.Errorf("the next machine has %q", got)
	}
}
