package main

import (
	"reflect"
	"unsafe"

	"gvisor.dev/gvisor/pkg/context"
	goferfs "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sync"
)

// closeUnused closes the volume's files that no process of the machine uses. The sentry keeps them
// open, because a process might use them again. pyro copies a file that is open for writing into a
// snapshot, and links all others. The machine must be paused.
func closeUnused(k *kernel.Kernel) {
	ctx := k.SupervisorContext()
	for _, fs := range k.VFS().GetFilesystems() {
		if fs.FilesystemType().Name() == goferfs.Name {
			volume := reflect.ValueOf(fs.Impl())
			names := (*sync.RWMutex)(volume.Elem().FieldByName("renameMu").Addr().UnsafePointer())
			names.Lock()
			evictAll(volume.UnsafePointer(), ctx)
			names.Unlock()
			closeAll(ctx, fs)
		}
		fs.DecRef(ctx)
	}
}

// evictAll removes all files from the cache of a volume that no process uses. The caller holds
// renameMu. gVisor does the same before it saves a machine.
//
//go:linkname evictAll gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer.(*filesystem).evictAllCachedDentriesLocked
func evictAll(volume unsafe.Pointer, ctx context.Context)
