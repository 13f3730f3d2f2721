package gvisor

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/process"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// The sentry opens no files of the host. Another process, the gofer, opens the files of the volume.
// The gofer's root is the volume's folder. The gofer sends file descriptors to the sentry, and the
// sentry reads and writes the files through them. All other file operations are messages to the
// gofer. So no write is lost if the sentry or the gofer crashes.

// goferProgramFD is the file descriptor of the gofer's own program. The descriptor before it is the
// gofer's socket.
const goferProgramFD = process.FirstFD + 1

// goferMemory is the memory that the gofer needs, in bytes.
const goferMemory = 64 << 20

// goferCapabilities are the capabilities of the gofer. It uses CAP_SYS_ADMIN to leave the host's
// file system, then drops it (runsc/confine.go). The other capabilities allow the gofer to set any
// owner and mode.
var goferCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// startGofer starts the process that serves a folder to a sentry. The parameter socket is the
// gofer's end of the connection. The gofer creates the file machine.TreeIncomplete before the
// sentry creates an entry that only the sentry knows. It copies files with the attribute
// xattr.Shared before the machine changes them. It gives files with several names the attribute
// xattr.SeveralNames. Like the sentry, the gofer has its own
// namespaces and only the open files that it needs. Its capabilities have no effect outside these
// namespaces.
//   - If pyro is root, the gofer runs as a user that nothing else uses. Its user namespace maps
//     each user ID to itself. So a file in the volume has the same owner inside the machine and on
//     the host.
//   - Otherwise the gofer runs as pyro's user, and this user is root in its namespace. So all files
//     of the volume belong to that user on the host, and to root inside the machine.
func startGofer(h Helper, id string, storage *machine.TreeStorage, socket *os.File, group *cgroup.Group) (*process.Process, error) {
	folder, err := filepath.Abs(storage.Folder)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(folder); err != nil { // clearer than the error of the gofer or the sentry
		return nil, err
	}
	program, err := os.Open(h.Path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", goferProgramFD), "gofer", folder, strconv.FormatInt(cmp.Or(storage.Bytes, machine.DefaultVolumeBytes), 10), machine.TreeIncomplete, xattr.Shared, xattr.SeveralNames)
	cmd.Args[0] = HelperName
	cmd.ExtraFiles = []*os.File{socket, program}
	cmd.Env = goferEnv
	cmd.Dir = "/"
	if cmd.SysProcAttr, err = goferConfinement(id); err != nil {
		return nil, err
	}
	if group != nil {
		group.Attr(cmd.SysProcAttr)
	}
	return process.Start("gVisor's gofer", cmd)
}

// goferEnv contains the environment variables of the gofer. They limit the threads of Go's runtime.
var goferEnv = append([]string{"GOMAXPROCS=2"}, sentryEnv...)

func goferConfinement(id string) (*syscall.SysProcAttr, error) {
	attr := process.Confined(os.Getuid(), os.Getgid(), 0)
	attr.AmbientCaps = goferCapabilities
	if os.Getuid() != 0 {
		attr.UidMappings[0].ContainerID, attr.GidMappings[0].ContainerID = 0, 0
		attr.Credential.Uid, attr.Credential.Gid = 0, 0
		return attr, nil
	}
	var err error
	if attr.UidMappings, err = identityMappings("/proc/self/uid_map"); err != nil {
		return nil, err
	}
	if attr.GidMappings, err = identityMappings("/proc/self/gid_map"); err != nil {
		return nil, err
	}
	user := uint32(process.User(id))
	attr.Credential.Uid, attr.Credential.Gid = user, user
	return attr, nil
}

// identityMappings returns mappings of each ID in pyro's user namespace to the same ID. The
// parameter file is the kernel's ID map of that namespace.
func identityMappings(file string) (all []syscall.SysProcIDMap, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var first, outside, n int64
		if _, err := fmt.Sscan(lines.Text(), &first, &outside, &n); err != nil || first < 0 || n <= 0 || first+n > math.MaxUint32+1 {
			return nil, fmt.Errorf("invalid line of %s: %q", file, lines.Text())
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: int(first), HostID: int(first), Size: int(n)})
	}
	if len(all) == 0 {
		return nil, errors.New(file + " is empty")
	}
	return all, nil
}
