package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/environment/debian"
)

// A check warns or fails if a file system has less free space than this, in bytes. An environment
// and its template take about 1 GiB.
const (
	warnFree = 4 << 30
	failFree = 256 << 20
)

func platform() Check {
	var name unix.Utsname
	var info unix.Sysinfo_t
	if err := errors.Join(unix.Uname(&name), unix.Sysinfo(&info)); err != nil {
		return failed("platform", Warn, err)
	}
	c := Check{Name: "platform", Status: OK, Detail: fmt.Sprintf("%s/%s, Linux %s, %d CPUs, %d MiB of memory",
		runtime.GOOS, runtime.GOARCH, unix.ByteSliceToString(name.Release[:]), runtime.NumCPU(), uint64(info.Totalram)*uint64(info.Unit)>>20)}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		c.Status, c.Hint = Fail, "use a machine with an x86-64 or ARM64 processor"
	}
	return c
}

// folder checks the file system of a folder that pyro uses. The folder itself does not have to
// exist.
func folder(name, path string) Check {
	existing := path
	for {
		if _, err := os.Stat(existing); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return failed(name, Fail, err)
		}
		if parent := filepath.Dir(existing); parent != existing {
			existing = parent
		}
	}
	if err := unix.Access(existing, unix.W_OK|unix.X_OK); err != nil {
		return Check{name, Fail, fmt.Sprintf("%s: %v", existing, err), "make it writable, or set PYRO_" + strings.ToUpper(strings.TrimSuffix(name, "_folder")) + "_DIR"}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(existing, &st); err != nil {
		return failed(name, Fail, &os.PathError{Op: "statfs", Path: existing, Err: err})
	}
	free := int64(st.Bavail) * st.Bsize
	c := Check{Name: name, Status: OK, Detail: fmt.Sprintf("%s, %.1f GB free", path, float64(free)/1e9)}
	switch {
	case free < failFree:
		c.Status, c.Hint = Fail, "pyro env prune"
	case free < warnFree:
		c.Status, c.Hint = Warn, "pyro env prune"
	}
	return c
}

// userNamespaces checks that an ordinary user can create user namespaces. mmdebstrap builds
// environments in a user namespace.
func userNamespaces() Check {
	const name = "user_namespaces"
	if os.Geteuid() == 0 {
		return Check{Name: name, Status: OK, Detail: "root needs none"}
	}
	cmd := exec.Command("true")
	// Some hosts allow user namespaces but give them no rights. Therefore the test also creates a
	// mount namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		return Check{name, Warn, "an ordinary user can't have one, so Debian environments can't be built: " + err.Error(),
			"sudo sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"}
	}
	if err := debian.CheckUser(); err != nil {
		return failed(name, Warn, err)
	}
	return Check{Name: name, Status: OK, Detail: "an ordinary user can have one"}
}
