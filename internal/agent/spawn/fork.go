package spawn

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clone3 makes the system call for a child that shares its memory with this process until the child
// executes a program.
func clone3(args unsafe.Pointer, size uintptr) (pid, errno uintptr)

// These functions of the Go runtime block signals during a fork and prevent the stack from moving.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// fork contains everything that the child needs. It is prepared before the fork, because the child
// can't allocate memory.
type fork struct {
	args cloneArgs

	path       *byte
	argv, env  []*byte
	dir        *byte
	fds        []uintptr
	setsid     bool
	terminal   bool
	credential *syscall.Credential
	groups     *uint32
	limits     OpenFiles
	noSignals  uint64 // empty signal mask
	pidfd      int32
	nsPID      int32 // the child's PID in its own namespace, written by the kernel
	childErrno uintptr
}

// cloneArgs is struct clone_args of linux/sched.h.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

func newFork(path string, argv []string, attr *os.ProcAttr, limits OpenFiles) (*fork, error) {
	if attr.Sys == nil {
		return nil, errors.New("spawn: attr.Sys is missing")
	}
	f := &fork{limits: limits, setsid: attr.Sys.Setsid, terminal: attr.Sys.Setctty, credential: attr.Sys.Credential}
	var err error
	if f.path, err = syscall.BytePtrFromString(path); err != nil {
		return nil, err
	}
	if f.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return nil, err
	}
	if f.env, err = syscall.SlicePtrFromStrings(attr.Env); err != nil {
		return nil, err
	}
	if attr.Dir != "" {
		if f.dir, err = syscall.BytePtrFromString(attr.Dir); err != nil {
			return nil, err
		}
	}
	if c := f.credential; c != nil && len(c.Groups) > 0 {
		f.groups = &c.Groups[0]
	}
	for _, file := range attr.Files {
		fd := file.Fd()
		if fd < uintptr(len(attr.Files)) { // dup3 would overwrite this descriptor before the child uses it
			return nil, errors.New("spawn: a file has a descriptor number that the child needs for another file")
		}
		f.fds = append(f.fds, fd)
	}
	f.args = cloneArgs{
		flags:      unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CHILD_SETTID | unix.CLONE_CLEAR_SIGHAND | uint64(attr.Sys.Cloneflags),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if attr.Sys.UseCgroupFD {
		f.args.flags |= unix.CLONE_INTO_CGROUP
		f.args.cgroup = uint64(attr.Sys.CgroupFD)
	}
	return f, nil
}

// run forks. It returns in the parent after the child has executed the program or has failed. On
// failure it returns an errno. If a child existed, it also returns the child's PID and pidfd.
//
//go:noinline
//go:norace
//go:nocheckptr
func (f *fork) run() (pid, pidfd int, errno syscall.Errno) {
	f.args.pidfd = uint64(uintptr(unsafe.Pointer(&f.pidfd)))
	f.args.childTID = uint64(uintptr(unsafe.Pointer(&f.nsPID)))
	beforeFork()
	child, failed := clone3(unsafe.Pointer(&f.args), unsafe.Sizeof(f.args))
	if failed != 0 || child != 0 {
		afterFork()
		if failed != 0 {
			return 0, -1, syscall.Errno(failed)
		}
		return int(child), int(f.pidfd), syscall.Errno(f.childErrno)
	}

	// From here on, this is the child. It can only make raw system calls.
	var e syscall.Errno
	if f.setsid {
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); e != 0 {
			goto fail
		}
	}
	if c := f.credential; c != nil {
		if !c.NoSetGroups {
			if _, _, e = syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(unsafe.Pointer(f.groups)), 0); e != 0 {
				goto fail
			}
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETGID, uintptr(c.Gid), 0, 0); e != 0 {
			goto fail
		}
		if _, _, e = syscall.RawSyscall(syscall.SYS_SETUID, uintptr(c.Uid), 0, 0); e != 0 {
			goto fail
		}
	}
	if f.dir != nil {
		if _, _, e = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(f.dir)), 0, 0); e != 0 {
			goto fail
		}
	}
	for to, from := range f.fds {
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, from, uintptr(to), 0); e != 0 {
			goto fail
		}
	}
	if f.terminal {
		if _, _, e = syscall.RawSyscall(syscall.SYS_IOCTL, 0, uintptr(syscall.TIOCSCTTY), 1); e != 0 {
			goto fail
		}
	}
	if _, _, e = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&f.limits)), 0, 0, 0); e != 0 {
		goto fail
	}
	if _, _, e = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&f.noSignals)), 0, 8, 0, 0); e != 0 {
		goto fail
	}
	_, _, e = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(f.path)), uintptr(unsafe.Pointer(&f.argv[0])), uintptr(unsafe.Pointer(&f.env[0])))

fail:
	f.childErrno = uintptr(e)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT, 253, 0, 0)
	}
}
