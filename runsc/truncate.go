package main

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	goferfs "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// truncated wraps truncate. It first opens the file for writing, so that the gofer replaces a
// shared file by a copy (shared.go). The sentry switches its existing descriptors and mappings to
// the copy only when it opens the file for writing.
func truncated(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if file := openForWriting(t, args[0].Pointer()); file != nil {
			defer file.DecRef(t)
		}
		return fn(t, number, args)
	}
}

// openForWriting opens a regular file of the volume. If it can't, it returns nil, and the system
// call itself reports the error.
func openForWriting(t *kernel.Task, path hostarch.Addr) *vfs.FileDescription {
	var file *vfs.FileDescription
	atPath(t, linux.AT_FDCWD, path, true, func(at *vfs.PathOperation) error {
		fs, user := t.Kernel().VFS(), t.Credentials()
		found, err := fs.GetDentryAt(t, user, at, &vfs.GetDentryOptions{})
		if err != nil {
			return err
		}
		defer found.DecRef(t)
		if found.Mount().Filesystem().FilesystemType().Name() != goferfs.Name {
			return nil
		}
		stat, err := fs.StatAt(t, user, at, &vfs.StatOptions{Mask: linux.STATX_TYPE})
		if err != nil || stat.Mode&linux.S_IFMT != linux.S_IFREG {
			return err
		}
		file, err = fs.OpenAt(t, user, at, &vfs.OpenOptions{Flags: linux.O_WRONLY | linux.O_NONBLOCK})
		return err
	})
	return file
}

// atPath calls fn with the path of a system call and returns its error. It returns an error itself
// if the path is empty or can't be read, or if the folder is not an open file.
func atPath(t *kernel.Task, folder int32, path hostarch.Addr, follow bool, fn func(*vfs.PathOperation) error) error {
	name, err := t.CopyInString(path, linux.PATH_MAX)
	if err != nil {
		return err
	}
	if name == "" {
		return linuxerr.ENOENT
	}
	at := &vfs.PathOperation{Path: fspath.Parse(name), FollowFinalSymlink: follow}
	at.Root = t.FSContext().RootDirectory()
	defer at.Root.DecRef(t)
	switch {
	case at.Path.Absolute:
		at.Start = at.Root
		at.Start.IncRef()
	case folder == linux.AT_FDCWD:
		at.Start = t.FSContext().WorkingDirectory()
	default:
		file := t.GetFile(folder)
		if file == nil {
			return linuxerr.EBADF
		}
		at.Start = file.VirtualDentry()
		at.Start.IncRef()
		file.DecRef(t)
	}
	defer at.Start.DecRef(t)
	return fn(at)
}
