package main

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	goferfs "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/kernel/pipe"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// quota limits the size of a volume. The sentry writes to the host's files directly, so the gofer
// does not see the writes. The sentry does not know how much space a write adds. So quota counts
// each write as new data. When the counted bytes reach the space that was free, quota makes the
// gofer measure the volume again.
type quota struct {
	left  atomic.Int64 // bytes that can be written before the gofer must measure again
	asked sync.Mutex
}

// limitVolume makes system calls that write to a full volume fail with ENOSPC. Call it before the
// machine is loaded.
func limitVolume() {
	q := &quota{}
	wrapCalls(func(name string, fn kernel.SyscallFn) kernel.SyscallFn {
		if w, ok := writes[name]; ok {
			return q.limited(w, fn)
		}
		switch name {
		case "mmap":
			return q.mapped(fn)
		case "io_submit":
			return q.submitted(fn)
		case "truncate":
			return truncated(fn)
		}
		return fn
	})
}

// write describes the arguments of a system call that writes to a file.
type write struct {
	file int   // Index of the argument for the file.
	size int   // Index of the argument for the number of bytes, or -1.
	most int64 // Maximum number of bytes for one call. 0 means no extra limit.
	all  bool  // The call must write all bytes or fail.
}

var writes = map[string]write{
	"write": {file: 0, size: 2}, "pwrite64": {file: 0, size: 2},
	"writev": {file: 0, size: -1}, "pwritev": {file: 0, size: -1}, "pwritev2": {file: 0, size: -1},
	"sendfile": {file: 0, size: 3, most: copyBytes}, "splice": {file: 2, size: 4, most: copyBytes}, "copy_file_range": {file: 2, size: 4, most: copyBytes},
	"fallocate": {file: 0, size: 3, all: true},
}

const (
	// copyBytes is the maximum size of a copy between files in one call. Programs often ask for
	// more bytes than the file has.
	copyBytes = 16 << 20
	// vectorBytes is the space that must be free for a write of unknown size.
	vectorBytes = 1 << 20
	// mostBytes is the maximum size of a write in one system call.
	mostBytes = 1<<31 - usedBlock
	// maxSubmitted is the maximum number of requests in one io_submit that are checked.
	maxSubmitted = 1 << 16
	// maxTaken is the maximum size of a reservation, a PiB. No volume has so much space, and the
	// reservations of all tasks of a machine can't overflow the counter.
	maxTaken = 1 << 50
)

// limited wraps the system call fn. It reduces the number of bytes to the free space.
func (q *quota) limited(w write, fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		file := volumeFile(t, args[w.file].Int())
		if file == nil {
			return fn(t, number, args)
		}
		defer file.DecRef(t)
		wanted := int64(vectorBytes)
		if w.size >= 0 {
			wanted = int64(min(args[w.size].Uint64(), 1<<62))
			if !w.all {
				wanted = min(wanted, mostBytes)
			}
			if w.most > 0 {
				wanted = min(wanted, w.most)
			}
		}
		if w.all && args[1].Uint64()&^(linux.FALLOC_FL_KEEP_SIZE|linux.FALLOC_FL_ZERO_RANGE) != 0 { // the call frees space
			return fn(t, number, args)
		}
		given, err := q.take(t, file, wanted)
		if err != nil {
			return 0, nil, err
		}
		if wanted > 0 && given <= 0 || w.all && given < wanted {
			q.left.Add(given)
			return 0, nil, linuxerr.ENOSPC
		}
		if w.size >= 0 {
			args[w.size].Value = uintptr(given)
		}
		written, control, err := fn(t, number, args)
		spent := given
		if !w.all {
			spent = blocksOf(int64(written))
			if err != nil {
				spent = 0
			}
		}
		q.left.Add(given - spent)
		return written, control, err
	}
}

// blocksOf estimates the space that a write of this size needs on the host, in bytes.
func blocksOf(written int64) int64 { return (written + usedBlock - 1) / usedBlock * usedBlock }

// volumeFile returns the file of a descriptor, or nil if the file is not in the volume. The caller
// must release the reference.
func volumeFile(t *kernel.Task, fd int32) *vfs.FileDescription {
	file := t.GetFile(fd)
	if file == nil {
		return nil
	}
	if _, isPipe := file.Impl().(*pipe.VFSPipeFD); !isPipe && file.Mount().Filesystem().FilesystemType().Name() == goferfs.Name {
		return file
	}
	file.DecRef(t)
	return nil
}

// take reserves up to wanted bytes of the free space, and returns how many bytes it has reserved.
func (q *quota) take(ctx context.Context, file *vfs.FileDescription, wanted int64) (int64, error) {
	if wanted > maxTaken {
		return 0, linuxerr.ENOSPC
	}
	if left := q.left.Add(-wanted); left >= 0 {
		return wanted, nil
	}
	q.left.Add(wanted)
	q.asked.Lock()
	defer q.asked.Unlock()
	if q.left.Load() < wanted {
		closeAll(ctx, file.Mount().Filesystem())
		stat, err := statVolume(ctx, file)
		if err != nil {
			return 0, err
		}
		q.left.Store(int64(stat.BlocksAvailable) * stat.BlockSize)
	}
	given := max(0, min(wanted, q.left.Load()))
	q.left.Add(-given)
	return given, nil
}

// statVolume asks the gofer how much space is free.
func statVolume(ctx context.Context, file *vfs.FileDescription) (linux.Statfs, error) {
	k := kernel.KernelFromContext(ctx)
	root := vfs.MakeVirtualDentry(file.Mount(), file.Mount().Root())
	return k.VFS().StatFSAt(ctx, auth.NewRootCredentials(k.RootUserNamespace()), pathIn(root, "."))
}

// closeAll makes the gofer close the files that the sentry has closed. Otherwise the sentry reports
// closed files only in batches of a hundred, and until then removed files use space. gVisor does
// not export the client, so closeAll reads an unexported field.
func closeAll(ctx context.Context, volume *vfs.Filesystem) {
	client := (*lisafs.Client)(reflect.ValueOf(volume.Impl()).Elem().FieldByName("client").UnsafePointer())
	client.CloseFD(ctx, lisafs.InvalidFDID, true)
}

// mapped wraps mmap. It allocates the space of a file before the file is mapped for writing,
// because later writes to the mapping can't fail.
func (q *quota) mapped(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		flags := args[3].Int()
		if flags&linux.MAP_ANONYMOUS != 0 || flags&linux.MAP_SHARED == 0 {
			return fn(t, number, args)
		}
		file := volumeFile(t, args[4].Int())
		if file == nil {
			return fn(t, number, args)
		}
		defer file.DecRef(t)
		if file.IsWritable() {
			if err := q.reserve(t, file, args[5].Uint64(), args[1].Uint64()); err != nil {
				return 0, nil, err
			}
		}
		return fn(t, number, args)
	}
}

// reserve fills the holes in a part of a file.
func (q *quota) reserve(ctx context.Context, file *vfs.FileDescription, offset, length uint64) error {
	stat, err := file.Stat(ctx, vfs.StatOptions{Mask: linux.STATX_MODE | linux.STATX_SIZE})
	if err != nil || stat.Mode&linux.S_IFMT != linux.S_IFREG || offset >= stat.Size {
		return err
	}
	length = min(length, stat.Size-offset)
	given, err := q.take(ctx, file, int64(length))
	if err != nil {
		return err
	}
	if given < int64(length) {
		q.left.Add(given)
		return linuxerr.ENOSPC
	}
	return allocateInode(inodeOf(file).Addr().UnsafePointer(), ctx, keepsSize, offset, length)
}

// allocateInode calls the gofer. FileDescription.Allocate would set the size to the end of the part
// in the sentry. If the file is larger, programs would lose their changes of private mappings
// behind this end.
//
//go:linkname allocateInode gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer.(*inode).allocate
func allocateInode(inode unsafe.Pointer, ctx context.Context, mode, offset, length uint64) error

// keepsSize is the mode of allocations that fill holes. gVisor does not allow it for programs.
const keepsSize = linux.FALLOC_FL_KEEP_SIZE

// submitted wraps io_submit. It reserves space for all write requests, although it can't know
// whether they will succeed.
func (q *quota) submitted(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		for i := range min(args[1].Uint64(), maxSubmitted) {
			var at primitive.Uint64
			var block linux.IOCallback
			if _, err := at.CopyIn(t, args[2].Pointer()+hostarch.Addr(8*i)); err != nil {
				break
			}
			if _, err := block.CopyIn(t, hostarch.Addr(at)); err != nil {
				break
			}
			if block.OpCode != linux.IOCB_CMD_PWRITE && block.OpCode != linux.IOCB_CMD_PWRITEV {
				continue
			}
			file := volumeFile(t, block.FD)
			if file == nil {
				continue
			}
			wanted := int64(vectorBytes)
			if block.OpCode == linux.IOCB_CMD_PWRITE {
				wanted = int64(min(block.Bytes, mostBytes))
			}
			given, err := q.take(t, file, wanted)
			file.DecRef(t)
			if err != nil {
				return 0, nil, err
			}
			if given < wanted {
				q.left.Add(given)
				return 0, nil, linuxerr.ENOSPC
			}
		}
		return fn(t, number, args)
	}
}
