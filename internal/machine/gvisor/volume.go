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
)

// The sentry opens no file of the host. Where a machine has a volume, another process does that for it: the gofer, whose root is the volume's folder. What the
// machine writes goes to the host's files at once, by descriptors that the gofer hands to the sentry, and everything else by messages between the two. So
// nothing of a volume is lost with them.

// goferProgramFD is the number under which the gofer inherits its own program. The one before is its socket.
const goferProgramFD = process.FirstFD + 1

// goferMemory is what the gofer may take.
const goferMemory = 64 << 20

// goferCapabilities are for leaving the host's file system, which it gives up at once (runsc/confine.go), and for giving files any owner and mode.
var goferCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// startGofer starts the process that serves a folder to a sentry, whose end of the socket is the other one. It is started, as the sentry is, in namespaces of
// its own, with no file open but those that it needs, and with the few capabilities of goferCapabilities, none of which it has on the host:
//   - under root as a user whom nobody else is. In its user namespace every user of the host is the same: an owner in the volume is the same inside and on the
//     host.
//   - else as the user of pyro, who is root there: then every file in the volume is that user's on the host, and root's inside, and can't have another owner.
func startGofer(h Helper, id string, storage *machine.TreeStorage, socket *os.File, group *cgroup.Group) (*process.Process, error) {
	folder, err := filepath.Abs(storage.Folder)
	if err != nil {
		return nil, err
	}
	program, err := os.Open(h.Path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", goferProgramFD), "gofer", folder, strconv.FormatInt(cmp.Or(storage.Bytes, machine.DefaultVolumeBytes), 10))
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

// goferEnv is all that the gofer gets of an environment: what keeps Go's runtime small.
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
	if attr.UidMappings, err = everyID("/proc/self/uid_map"); err != nil {
		return nil, err
	}
	if attr.GidMappings, err = everyID("/proc/self/gid_map"); err != nil {
		return nil, err
	}
	user := uint32(process.User(id))
	attr.Credential.Uid, attr.Credential.Gid = user, user
	return attr, nil
}

// everyID maps every id that there is in pyro's own user namespace to itself. file is the kernel's map of that.
func everyID(file string) (all []syscall.SysProcIDMap, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var first, outside, n int64
		if _, err := fmt.Sscan(lines.Text(), &first, &outside, &n); err != nil || first < 0 || n <= 0 || first+n > math.MaxUint32+1 {
			return nil, fmt.Errorf("%s is not understood: %q", file, lines.Text())
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: int(first), HostID: int(first), Size: int(n)})
	}
	if len(all) == 0 {
		return nil, errors.New(file + " is empty")
	}
	return all, nil
}
