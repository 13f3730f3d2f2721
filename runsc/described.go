package main

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
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

// describeVolume makes system calls use new descriptions. Call it before the machine is loaded.
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

// description describes a system call that describes the file at a path.
type description struct {
	at      int                                                  // index of the argument for the address of the description
	several func(t *kernel.Task, description hostarch.Addr) bool // reports whether it is of a regular file with several names
}

var descriptions = map[string]description{
	"stat": {1, statSeveral}, "lstat": {1, statSeveral}, "newfstatat": {2, statSeveral}, "statx": {4, statxSeveral},
}

func statSeveral(t *kernel.Task, at hostarch.Addr) bool {
	var s linux.Stat
	b := t.CopyScratchBuffer(s.SizeBytes())
	if _, err := t.CopyInBytes(at, b); err != nil {
		return false
	}
	s.UnmarshalUnsafe(b)
	return s.Mode&linux.S_IFMT == linux.S_IFREG && s.Nlink > 1
}

func statxSeveral(t *kernel.Task, at hostarch.Addr) bool {
	var s linux.Statx
	b := t.CopyScratchBuffer(s.SizeBytes())
	if _, err := t.CopyInBytes(at, b); err != nil {
		return false
	}
	s.UnmarshalUnsafe(b)
	return s.Mode&linux.S_IFMT == linux.S_IFREG && s.Nlink > 1
}

// described wraps the system call fn. If the file has several names, it calls fn again, because the
// sentry knows the name after the first call.
func (d description) described(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		result, control, err := fn(t, number, args)
		if err == nil && d.several(t, args[d.at].Pointer()) {
			return fn(t, number, args)
		}
		return result, control, err
	}
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
