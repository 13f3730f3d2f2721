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

// root is what a machine changes of its environment: an overlay of gVisor's, mounted on environment.
type root struct {
	kernel *kernel.Kernel
	tree   *tree
	ready  chan error // nil where the machine goes on from what was saved
}

// newMachineRoot gives the root of a machine that is about to be started. When its first process makes its first system call, that waits until the root has
// in it what an earlier machine had changed; archive is nil where there was none.
//
// That is also how the machine's kernel is got hold of: gVisor stops a process before a system call for the sake of something outside, and hands it the kernel.
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
				select {} // the process is never let go on: the machine is ended
			}
		})
	}
	for _, table := range kernel.SyscallTables() {
		table.External = first
		table.FeatureEnable.EnableAll(kernel.ExternalBeforeEnable)
	}
	return r
}

// wait waits until the root is as it was left, once the machine has been started.
func (r *root) wait() error {
	if r.ready == nil { // it was saved with the machine
		return nil
	}
	return <-r.ready
}

// begin looks at the environment while nobody has moved it yet.
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

// rootKey is under what the mount of the environment is saved with a machine, in which nobody knows where it is by then.
const rootKey = "pyro's root"

// goOn finds the environment in a machine that was saved.
func (r *root) goOn(k *kernel.Kernel) error {
	mount, ok := k.PopCheckpointState(rootKey).(*vfs.Mount)
	if !ok {
		return errors.New("the machine was saved without storage")
	}
	k.AddStateToCheckpoint(rootKey, mount)
	r.kernel, r.tree = k, treeOn(k, mount)
	return nil
}

// keep writes what the machine has changed. Nothing runs in the machine meanwhile: so nobody waits to change the file system that tells of itself, and what is
// looked up in it meanwhile does not wait for them.
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
	told := make(chan struct{})
	go func() {
		w.CloseWithError(tmpfs.FSCheckpointWrite(ctx, upper, w))
		close(told)
	}()
	defer func() {
		description.Close()
		<-told
	}()
	return layer.Write(to, layer.Source{Description: description, Pages: pages.File(), Details: r.tree.details})
}

// upper finds the file system in which the overlay keeps what is changed. The caller gives up its reference.
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
