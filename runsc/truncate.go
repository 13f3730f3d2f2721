package main

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
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
	name, err := t.CopyInString(path, linux.PATH_MAX)
	if err != nil || name == "" {
		return nil
	}
	root, start := t.FSContext().RootDirectory(), t.FSContext().WorkingDirectory()
	defer root.DecRef(t)
	defer start.DecRef(t)
	at := &vfs.PathOperation{Root: root, Start: start, Path: fspath.Parse(name), FollowFinalSymlink: true}
	if at.Path.Absolute {
		at.Start = root
	}
	fs, user := t.Kernel().VFS(), t.Credentials()
	found, err := fs.GetDentryAt(t, user, at, &vfs.GetDentryOptions{})
	if err != nil {
		return nil
	}
	defer found.DecRef(t)
	if found.Mount().Filesystem().FilesystemType().Name() != goferfs.Name {
		return nil
	}
	stat, err := fs.StatAt(t, user, at, &vfs.StatOptions{Mask: linux.STATX_TYPE})
	if err != nil || stat.Mode&linux.S_IFMT != linux.S_IFREG {
		return nil
	}
	file, err := fs.OpenAt(t, user, at, &vfs.OpenOptions{Flags: linux.O_WRONLY | linux.O_NONBLOCK})
	if err != nil {
		return nil
	}
	return file
}
