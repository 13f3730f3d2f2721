package main

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/atomicbitops"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// The sentry keeps one description of each file of the volume, for all names of the file. It asks
// the gofer for a new description when a program uses a name that the sentry knows. It does not ask
// when a program uses another name for the first time, or changes the owner of an open file. Then
// gVisor reports old times, sizes, modes and owners. It also does not set an owner that the old
// description has.
//
// gVisor reports that an open file without a name has one name. Programs look at this number to
// find out whether their lock file was removed.
//
// Not corrected: open and access succeed if the old description allows them.

// describeVolume corrects the system calls that describe files, change their owner or check their
// permissions. Call it before the machine is loaded.
func describeVolume() {
	wrapCalls(func(name string, fn kernel.SyscallFn) kernel.SyscallFn {
		if d, ok := descriptions[name]; ok {
			return d.described(fn)
		}
		if r, ok := renewals[name]; ok {
			return r.renewed(fn)
		}
		if checks[name] {
			return checked(fn)
		}
		return fn
	})
}

// subject has the arguments that say which file a system call is about. Each is the index of an
// argument, or -1 if there is none.
type subject struct {
	file  int // descriptor of an open file, or of the folder where the path begins
	path  int
	flags int // with AT_EMPTY_PATH and an empty path, the call is about the open file
}

// opened returns the open file of the volume that a system call is about, or nil if it is about
// another file. The caller must release the reference.
func (s subject) opened(t *kernel.Task, args arch.SyscallArguments) *vfs.FileDescription {
	if s.file < 0 {
		return nil
	}
	if s.path >= 0 {
		path := make([]byte, 1)
		if args[s.flags].Int()&linux.AT_EMPTY_PATH == 0 {
			return nil
		}
		if _, err := t.CopyInBytes(args[s.path].Pointer(), path); err != nil || path[0] != 0 {
			return nil
		}
	}
	return volumeFile(t, args[s.file].Int())
}

// description describes a system call that describes a file.
type description struct {
	subject
	layout
	at int // index of the argument for the address of the description
}

// layout describes the form of a description, in bytes.
type layout struct {
	size  uintptr
	mode  uintptr // where the 16 bits of the mode begin
	names uintptr // where the lower 32 bits of the number of names begin
}

var (
	statLayout  = layout{unsafe.Sizeof(linux.Stat{}), unsafe.Offsetof(linux.Stat{}.Mode), unsafe.Offsetof(linux.Stat{}.Nlink)}
	statxLayout = layout{unsafe.Sizeof(linux.Statx{}), unsafe.Offsetof(linux.Statx{}.Mode), unsafe.Offsetof(linux.Statx{}.Nlink)}

	descriptions = map[string]description{
		"stat":       {subject{-1, 0, -1}, statLayout, 1},
		"lstat":      {subject{-1, 0, -1}, statLayout, 1},
		"fstat":      {subject{0, -1, -1}, statLayout, 1},
		"newfstatat": {subject{0, 1, 3}, statLayout, 2},
		"statx":      {subject{0, 1, 2}, statxLayout, 4},
	}
)

// described wraps the system call fn. If a file has several names, it calls fn again, because the
// sentry knows the name after the first call. If an open file has no name, it corrects the number.
func (d description) described(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		result, control, err := fn(t, number, args)
		if err != nil {
			return result, control, err
		}
		at := args[d.at].Pointer()
		b := t.CopyScratchBuffer(int(d.size))
		if _, err := t.CopyInBytes(at, b); err != nil {
			return result, control, nil
		}
		kind, names := binary.LittleEndian.Uint16(b[d.mode:])&linux.S_IFMT, binary.LittleEndian.Uint32(b[d.names:])
		switch {
		case kind != linux.S_IFDIR && names > 1:
			return fn(t, number, args)
		case kind == linux.S_IFREG && names == 1 && d.ofRemoved(t, args):
			if _, err := t.CopyOutBytes(at+hostarch.Addr(d.names), make([]byte, 4)); err != nil {
				return 0, nil, err
			}
		}
		return result, control, nil
	}
}

// ofRemoved reports whether the system call described an open file of the volume that has no name.
func (d description) ofRemoved(t *kernel.Task, args arch.SyscallArguments) bool {
	file := d.opened(t, args)
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	names := (*atomicbitops.Uint32)(inodeOf(file).FieldByName("nlink").Addr().UnsafePointer())
	if names.Load() > 0 {
		return false
	}
	// While another program removes a name, the number can be too low until the next description.
	renew(t, file)
	return names.Load() == 0
}

// renew makes the sentry ask the gofer for the description of an open file.
func renew(t *kernel.Task, file *vfs.FileDescription) {
	file.Stat(t, vfs.StatOptions{Mask: linux.STATX_BASIC_STATS})
}

// inodeOf returns gVisor's inode of a file of the volume.
func inodeOf(file *vfs.FileDescription) reflect.Value {
	return reflect.ValueOf(file.Dentry().Impl()).Elem().FieldByName("inode").Elem()
}

// renewal describes a system call that needs the new description before it begins.
type renewal struct {
	subject
	follow bool // the call follows a symbolic link, unless its flags say otherwise
}

var renewals = map[string]renewal{
	"chown":    {subject{-1, 0, -1}, true},
	"lchown":   {subject{-1, 0, -1}, false},
	"fchown":   {subject{0, -1, -1}, false},
	"fchownat": {subject{0, 1, 4}, true},
	"execve":   {subject{-1, 0, -1}, true},
	"execveat": {subject{0, 1, 4}, true},
}

// renewed wraps the system call fn. It first makes the sentry ask for the file's description.
func (r renewal) renewed(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if file := r.opened(t, args); file != nil {
			renew(t, file)
			file.DecRef(t)
		} else if r.path >= 0 {
			folder, follow := int32(linux.AT_FDCWD), r.follow
			if r.flags >= 0 {
				folder, follow = args[r.file].Int(), args[r.flags].Int()&linux.AT_SYMLINK_NOFOLLOW == 0
			}
			atPath(t, folder, args[r.path].Pointer(), follow, func(at *vfs.PathOperation) error {
				_, err := t.Kernel().VFS().StatAt(t, t.Credentials(), at, &vfs.StatOptions{Mask: linux.STATX_BASIC_STATS})
				return err
			})
		}
		return fn(t, number, args)
	}
}

// checks lists the system calls that check permissions and change nothing if they fail. Programs
// make them too often to ask for a description before each one.
var checks = map[string]bool{
	"open": true, "openat": true, "openat2": true, "creat": true, "truncate": true, "access": true, "faccessat": true, "faccessat2": true,
	"chmod": true, "fchmodat": true, "fchmodat2": true, "utime": true, "utimes": true, "futimesat": true, "utimensat": true,
	"getxattr": true, "setxattr": true, "removexattr": true, "listxattr": true,
	"lgetxattr": true, "lsetxattr": true, "lremovexattr": true, "llistxattr": true,
}

// checked wraps the system call fn. If permissions are missing, it calls fn again, because the
// sentry knows the name after the first call.
func checked(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		result, control, err := fn(t, number, args)
		if linuxerr.Equals(linuxerr.EACCES, err) || linuxerr.Equals(linuxerr.EPERM, err) {
			return fn(t, number, args)
		}
		return result, control, err
	}
}
