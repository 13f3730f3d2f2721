package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"gvisor.dev/gvisor/pkg/sentry/fsimpl/tmpfs"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/pyro-mcp/pyro/runsc/layer"
)

// root is a machine's environment with its changes. It is one of gVisor's overlays, mounted at the
// path environment.
type root struct {
	kernel *kernel.Kernel
	tree   *tree
	ready  chan error // gets the result of begin; nil for a restored machine
}

// newMachineRoot prepares the root of a machine that will start later. The parameter archive
// contains the changes of an earlier machine, or is nil if there are none. The machine's first
// system call waits until these changes are applied.
//
// That system call is also where pyro gets the machine's kernel. gVisor can stop a process before a
// system call and pass the kernel to a callback.
func newMachineRoot(archive *os.File) *root {
	r := &root{ready: make(chan error, 1)}
	var once sync.Once
	first := func(k *kernel.Kernel) {
		once.Do(func() {
			for _, table := range kernel.SyscallTables() {
				table.FeatureEnable.Enable(kernel.ExternalBeforeEnable, nil, false)
			}
			err := r.begin(k, archive)
			r.ready <- err
			if err != nil {
				select {} // the process must never continue, because the machine will be stopped
			}
		})
	}
	for _, table := range kernel.SyscallTables() {
		table.External = first
		table.FeatureEnable.EnableAll(kernel.ExternalBeforeEnable)
	}
	return r
}

// wait waits until the changes are applied. Call it after the machine has been started.
func (r *root) wait() error {
	if r.ready == nil { // a saved machine already contains its root
		return nil
	}
	return <-r.ready
}

// begin finds the environment before any process can move it. Then it applies the changes in the
// archive.
func (r *root) begin(k *kernel.Kernel, archive *os.File) (err error) {
	r.kernel = k
	if r.tree, err = newTree(k); err != nil {
		return err
	}
	k.AddStateToCheckpoint(rootKey, r.tree.root.Mount())
	if archive == nil {
		return nil
	}
	defer archive.Close()
	return layer.Apply(r.tree, archive)
}

// rootKey is the key of the environment's mount in a saved machine. The path can't be used, because
// it might have changed.
const rootKey = "pyro's root"

// restored finds the environment in a restored machine.
func (r *root) restored(k *kernel.Kernel) error {
	mount, ok := k.PopCheckpointState(rootKey).(*vfs.Mount)
	if !ok {
		return errors.New("the machine was saved without storage")
	}
	k.AddStateToCheckpoint(rootKey, mount)
	r.kernel, r.tree = k, treeOn(k, mount)
	return nil
}

// keep writes the changes as an archive. It pauses the machine. In a paused machine no task waits
// for the file system's lock while gVisor describes the file system, so lookups do not block
// either.
func (r *root) keep(to io.Writer) error {
	r.kernel.Pause()
	defer r.kernel.Unpause()
	upper, err := r.upper()
	if err != nil {
		return err
	}
	ctx := r.kernel.SupervisorContext()
	defer upper.DecRef(ctx)
	pages := tmpfs.MemoryFileOf(upper)
	if err := pages.AwaitLoadAll(); err != nil {
		return err
	}
	description, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		w.CloseWithError(tmpfs.FSCheckpointWrite(ctx, upper, w))
		close(written)
	}()
	defer func() {
		description.Close()
		<-written
	}()
	return layer.Write(to, layer.Source{Description: description, Pages: pages.File(), Details: r.tree.details})
}

// upper finds the file system that contains the overlay's changes. The caller releases the
// reference.
func (r *root) upper() (found *vfs.Filesystem, err error) {
	ctx := r.kernel.SupervisorContext()
	for _, fs := range r.kernel.VFS().GetFilesystems() {
		if pages := tmpfs.MemoryFileOf(fs); found == nil && pages != nil && pages.ResourceID().Path == environment {
			found = fs
			continue
		}
		fs.DecRef(ctx)
	}
	if found == nil {
		return nil, fmt.Errorf("nothing is mounted on %s", environment)
	}
	return found, nil
}
