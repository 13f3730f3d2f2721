package main

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/atomicbitops"
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

// describeVolume corrects the system calls that describe files or change their owner. Call it
// before the machine is loaded.
func describeVolume() {
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			if d, ok := descriptions[call.Name]; ok {
				call.Fn = d.described(call.Fn)
			} else if at, ok := owners[call.Name]; ok {
				call.Fn = owned(at, call.Fn)
			} else if call.Name == "fchown" {
				call.Fn = openOwned(call.Fn)
			} else {
				continue
			}
			table.Table[number] = call
		}
		table.Init()
	}
}

// description describes a system call that describes a file. The fields at, path and flags are
// indexes of arguments. If the call has no such argument, they are -1.
type description struct {
	layout
	at    int // address of the description
	path  int // path of the file. Without it, the first argument is an open file.
	flags int
}

// layout describes the form of a description, in bytes.
type layout struct {
	size  uintptr
	mode  uintptr // where the 16 bits of the mode begin
	names uintptr // where the lower 32 bits of the number of names begin
}

var (
	stat  = layout{unsafe.Sizeof(linux.Stat{}), unsafe.Offsetof(linux.Stat{}.Mode), unsafe.Offsetof(linux.Stat{}.Nlink)}
	statx = layout{unsafe.Sizeof(linux.Statx{}), unsafe.Offsetof(linux.Statx{}.Mode), unsafe.Offsetof(linux.Statx{}.Nlink)}

	descriptions = map[string]description{
		"stat": {stat, 1, 0, -1}, "lstat": {stat, 1, 0, -1}, "newfstatat": {stat, 2, 1, 3},
		"statx": {statx, 4, 1, 2}, "fstat": {stat, 1, -1, -1},
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
		if _, err := t.CopyInBytes(at, b); err != nil || binary.LittleEndian.Uint16(b[d.mode:])&linux.S_IFMT != linux.S_IFREG {
			return result, control, nil
		}
		switch names := binary.LittleEndian.Uint32(b[d.names:]); {
		case names > 1:
			return fn(t, number, args)
		case names == 1 && d.ofRemoved(t, args):
			if _, err := t.CopyOutBytes(at+hostarch.Addr(d.names), make([]byte, 4)); err != nil {
				return 0, nil, err
			}
		}
		return result, control, nil
	}
}

// ofRemoved reports whether the system call described an open file of the volume that has no name.
func (d description) ofRemoved(t *kernel.Task, args arch.SyscallArguments) bool {
	if d.path >= 0 {
		path := make([]byte, 1)
		if d.flags < 0 || args[d.flags].Int()&linux.AT_EMPTY_PATH == 0 {
			return false
		}
		if _, err := t.CopyInBytes(args[d.path].Pointer(), path); err != nil || path[0] != 0 {
			return false
		}
	}
	file := volumeFile(t, args[0].Int())
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	inode := reflect.ValueOf(file.Dentry().Impl()).Elem().FieldByName("inode").Elem()
	return (*atomicbitops.Uint32)(inode.FieldByName("nlink").Addr().UnsafePointer()).Load() == 0
}

// owners has the system calls that change the owner of the file at a path. The value is the index
// of the argument for the owner. The group is the next argument.
var owners = map[string]int{"chown": 1, "lchown": 1, "fchownat": 2}

// owned wraps the system call fn. It first calls fn without an owner, so that the sentry knows the
// name.
func owned(at int, fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		none := args
		none[at].Value, none[at+1].Value = ^uintptr(0), ^uintptr(0)
		if result, control, err := fn(t, number, none); err != nil {
			return result, control, err
		}
		return fn(t, number, args)
	}
}

// openOwned wraps fchown. It first lets the sentry ask for a new description.
func openOwned(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if file := t.GetFile(args[0].Int()); file != nil {
			file.Stat(t, vfs.StatOptions{Mask: linux.STATX_BASIC_STATS})
			file.DecRef(t)
		}
		return fn(t, number, args)
	}
}
