package process

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// starter is the name under which this program runs itself to become another one in an empty mount namespace.
const starter = "pyro-empty-root"

func init() {
	if len(os.Args) > 4 && os.Args[0] == starter && os.Getpid() == 1 { // in a PID namespace of its own, as confined programs are: elsewhere this would change the host
		errno := become(os.Args[1], os.Args[2], os.Args[3:])
		os.Exit(int(errno))
	}
}

// StartEmptied is Start for a program that changes its root to an inherited folder once it has loaded all that it needs, such as QEMU. Its mount namespace holds
// nothing but an empty read-only folder, and rootFD, a file of the command, is that folder; until the program enters it, it sees the host's files by a root that no
// mount namespace has. If the host forbids that, rootFD stays what it is and the namespace a copy of the host's. The command must be confined with CAP_SYS_ADMIN,
// which the program does not get, and be in a new user namespace, in which mounts below the root stay connected to it.
func StartEmptied(name string, cmd *exec.Cmd, rootFD int) (*Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer r.Close()
	path := cmd.Path
	cmd.ExtraFiles = append(cmd.ExtraFiles[:len(cmd.ExtraFiles):len(cmd.ExtraFiles)], w)
	report := FirstFD + len(cmd.ExtraFiles) - 1
	cmd.Path, cmd.Args = "/proc/self/exe", append([]string{starter, strconv.Itoa(rootFD), strconv.Itoa(report), path}, cmd.Args...)
	p, err := Start(name, cmd)
	w.Close()
	if err != nil {
		return nil, err
	}
	var errno [4]byte
	if n, err := io.ReadFull(r, errno[:]); n > 0 { // else it was closed by the program's start
		<-p.Done()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(binary.NativeEndian.Uint32(errno[:]))}
	}
	return p, nil
}

// become empties the mount namespace and runs the program: command is its path and arguments. It returns if it can't, and has reported that.
func become(root, report string, command []string) syscall.Errno {
	runtime.LockOSThread() // capabilities are a thread's
	rootFD, err1 := strconv.Atoi(root)
	reportFD, err2 := strconv.Atoi(report)
	if err1 != nil || err2 != nil {
		return unix.EINVAL
	}
	unix.CloseOnExec(reportFD)
	err := emptyNamespace(rootFD)
	if err == nil {
		err = dropAdmin()
	}
	if err == nil {
		err = syscall.Exec(command[0], command[1:], os.Environ())
	}
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = unix.EIO
	}
	unix.Write(reportFD, binary.NativeEndian.AppendUint32(nil, uint32(errno)))
	return errno
}

// emptyRootAt is where the empty folder is mounted for a moment. Every host has it.
const emptyRootAt = "/tmp"

// emptyNamespace makes an empty folder the root of the mount namespace, and root that folder. The process itself keeps the host's files as its root. It is no error
// if the host forbids that: then all is as it was.
func emptyNamespace(root int) error {
	host, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(host)
	if mountEmpty() != nil {
		return nil
	}
	empty, err := unix.Open(emptyRootAt, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(empty)
	if err := unix.Fchdir(empty); err != nil {
		return err
	}
	if unix.PivotRoot(".", ".") != nil {
		return unix.Chdir("/")
	}
	// The host's mounts are on top of the new root now: see pivot_root(2). They leave the namespace, and last as long as this process uses them.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Dup3(empty, root, 0); err != nil {
		return err
	}
	if err := unix.Fchdir(host); err != nil {
		return err
	}
	return unix.Chroot(".")
}

func mountEmpty() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", emptyRootAt, "tmpfs", flags, "mode=0555,size=4k"); err != nil {
		return err
	}
	return unix.Mount("", emptyRootAt, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "")
}

// dropAdmin gives CAP_SYS_ADMIN up, and keeps the other capabilities.
func dropAdmin() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, unix.CAP_SYS_ADMIN, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return err
	}
	const admin = uint32(1) << unix.CAP_SYS_ADMIN
	has[0].Effective, has[0].Permitted, has[0].Inheritable = has[0].Effective&^admin, has[0].Permitted&^admin, has[0].Inheritable&^admin
	return unix.Capset(&header, &has[0])
}
