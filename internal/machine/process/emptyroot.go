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

// starter is the name of this program while it prepares an empty mount namespace for another
// program.
const starter = "pyro-empty-root"

func init() {
	// Without the check of the PID, this program could change the host's mount namespace.
	if len(os.Args) > 4 && os.Args[0] == starter && os.Getpid() == 1 {
		errno := become(os.Args[1], os.Args[2], os.Args[3:])
		os.Exit(int(errno))
	}
}

// StartEmptied is like Start, but gives the program an empty mount namespace. It is for programs
// such as QEMU, which open all of their files and then change their root to an inherited folder.
//
// The mount namespace contains only an empty read-only folder. The descriptor rootFD refers to that
// folder. The program's root shows the host's files until the program enters the folder, but no
// mount namespace contains these files. If the host forbids this, rootFD does not change, and the
// namespace is a copy of the host's.
//
// The command must be confined with CAP_SYS_ADMIN. StartEmptied drops this capability before the
// program runs. The command must be in a new user namespace, so that mounts below the root stay
// connected to the root.
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
	if n, err := io.ReadFull(r, errno[:]); n > 0 { // n is 0 if exec has succeeded and closed the pipe
		<-p.Done()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(binary.NativeEndian.Uint32(errno[:]))}
	}
	return p, nil
}

// become empties the mount namespace and runs a command. The parameter command is a path, followed
// by the arguments. After an error, become writes the error to the descriptor report and returns
// it.
func become(root, report string, command []string) syscall.Errno {
	runtime.LockOSThread() // each thread has its own capabilities
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

// emptyRootAt is a folder that exists on every host. emptyNamespace briefly mounts the empty folder
// there.
const emptyRootAt = "/tmp"

// emptyNamespace makes an empty folder the root of the mount namespace, and makes the descriptor
// root refer to it. The root of the process itself still shows the host's files. If the host
// forbids this, emptyNamespace changes nothing and returns no error.
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
	// The host's mounts are now on top of the new root, see pivot_root(2). The unmount removes them
	// from the namespace, but they exist as long as this process uses them.
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

// dropAdmin drops CAP_SYS_ADMIN but no other capability.
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
