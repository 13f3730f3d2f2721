package main

import (
	"crypto/rand"
	"fmt"
	"reflect"

	"gvisor.dev/gvisor/pkg/sentry/fsimpl/kernfs"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/runsc/boot"
)

// resume prepares a restored machine before the machine runs. It renews the boot ID, freezes all
// tasks except the agent's, and waits for pyro's command.
func resume(l *boot.Loader, owner *owner, changed *root, others *held) error {
	k := kernelOf(l)
	if changed != nil {
		if err := changed.restored(k); err != nil {
			return err
		}
	}
	for _, fs := range k.VFS().GetFilesystems() {
		err := renewBootID(k, fs)
		fs.DecRef(k.SupervisorContext())
		if err != nil {
			return fmt.Errorf("renew the boot id: %w", err)
		}
	}
	cutConnections(k)
	others.hold(k)
	return owner.await("go")
}

// bootIDFile exists in every /proc file system, and each has a different boot ID.
const bootIDFile = "sys/kernel/random/boot_id"

// renewBootID replaces the boot ID of a /proc file system. gVisor makes the boot ID together with
// the file system and saves it.
func renewBootID(k *kernel.Kernel, fs *vfs.Filesystem) error {
	if fs.FilesystemType().Name() != "proc" {
		return nil
	}
	ctx, user := k.SupervisorContext(), auth.NewRootCredentials(k.RootUserNamespace())
	root := (*kernfs.Dentry)(reflect.ValueOf(fs.Impl()).Elem().FieldByName("root").UnsafePointer())
	mount := k.VFS().NewDisconnectedMount(fs, root.VFSDentry(), &vfs.MountOptions{})
	defer mount.DecRef(ctx)
	at := vfs.MakeVirtualDentry(mount, mount.Root())
	file, err := k.VFS().GetDentryAt(ctx, user, pathIn(at, bootIDFile), &vfs.GetDentryOptions{})
	if err != nil {
		return err
	}
	defer file.DecRef(ctx)
	inode := file.Dentry().Impl().(*kernfs.Dentry).Inode()
	reflect.ValueOf(inode).Elem().FieldByName("Data").SetString(newUUID() + "\n")
	return nil
}

// newUUID returns a random UUID in the kernel's format.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
