package main

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A program that opens a named pipe waits until another program opens the other end. A signal or a
// pause of the machine interrupts this wait. gVisor's open (VFSPipe.Open in pkg/sentry/kernel/pipe)
// has two faults then:
//
//   - It fails even if the other end was opened meanwhile. The other program can then write to a
//     pipe that has no reader, so the data is lost.
//   - It fails with EINTR, even if no signal has a handler. Linux restarts the open.
//
// Not corrected: openat2.

// restartOpens corrects the system calls that open a file by its name. Call it before the machine
// is loaded.
func restartOpens() {
	wrapCalls(func(name string, fn kernel.SyscallFn) kernel.SyscallFn {
		if o, ok := opens[name]; ok {
			return o.open
		}
		return fn
	})
}

// openCall has the indexes of the arguments of a system call that opens a file. An index is -1 if
// the call has no such argument.
type openCall struct{ folder, path, flags, mode int }

var opens = map[string]openCall{
	"open":   {-1, 0, 1, 2},
	"openat": {0, 1, 2, 3},
	"creat":  {-1, 0, -1, 1},
}

// open implements the system call.
func (o openCall) open(t *kernel.Task, _ uintptr, args arch.SyscallArguments) (fd uintptr, _ *kernel.SyscallControl, err error) {
	folder, flags := int32(linux.AT_FDCWD), uint32(linux.O_WRONLY|linux.O_CREAT|linux.O_TRUNC)
	if o.folder >= 0 {
		folder = args[o.folder].Int()
	}
	if o.flags >= 0 {
		flags = args[o.flags].Uint()
	}
	options := &vfs.OpenOptions{
		Flags: flags | linux.O_LARGEFILE,
		Mode:  linux.FileMode(args[o.mode].ModeT()&0o7777) &^ linux.FileMode(t.FSContext().Umask()),
	}
	err = atPath(t, folder, args[o.path].Pointer(), flags&linux.O_NOFOLLOW == 0, func(at *vfs.PathOperation) error {
		ctx := &opening{Context: t}
		file, err := t.Kernel().VFS().OpenAt(ctx, t.Credentials(), at, options)
		if err != nil {
			if ctx.interrupted && linuxerr.Equals(linuxerr.EINTR, err) {
				return linuxerr.ERESTARTSYS
			}
			return err
		}
		defer file.DecRef(t)
		n, err := t.NewFDFrom(0, file, kernel.FDFlags{CloseOnExec: flags&linux.O_CLOEXEC != 0})
		fd = uintptr(n)
		return err
	})
	return fd, nil, err
}

// opening is the context of a task that opens a file. When the wait for the other end of a named
// pipe is interrupted, gVisor checks once more whether the other end was opened.
type opening struct {
	context.Context
	interrupted bool
}

// BlockOn waits for an event. It returns false if the wait was interrupted. gVisor uses
// waiter.EventInternal only for named pipes. For these, BlockOn returns true after an interrupt.
// gVisor calls it again if the other end is still not open.
func (o *opening) BlockOn(w waiter.Waitable, mask waiter.EventMask) bool {
	if mask != waiter.EventInternal {
		return o.Context.BlockOn(w, mask)
	}
	if o.interrupted {
		return false
	}
	o.interrupted = !o.Context.BlockOn(w, mask)
	return true
}
