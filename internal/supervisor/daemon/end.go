package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// end describes the end of a supervisor: its reason, and the remaining work.
type end struct {
	reason  string
	expired bool
	paused  bool // the machine was saved, so it has nothing to flush.
	killed  bool // the machine has ended or was never used, so it has nothing to flush.
	discard bool // only the volume must be kept
}

// stop requests the end of the supervisor. Only the first call has an effect.
func (d *daemon) stop(e end) {
	d.stopOnce.Do(func() {
		d.stopFor = e
		close(d.stopping)
	})
}

const (
	// agentPatience is how long the agent can take to answer when the machine is stopped. An agent
	// that does not answer can't kill the processes either, so the machine is then ended with its
	// processes.
	agentPatience = 2 * time.Second
	// quiescePatience is how long the machine can take to flush and unmount its disks.
	quiescePatience = 30 * time.Second
	// keepPatience is how long the machine can take to save the changes to its root disk, which can
	// be gigabytes.
	keepPatience = 30 * time.Minute
)

// end ends the machine without data loss, records the reason, and releases all resources.
func (d *daemon) end(ctx context.Context, e end) error {
	ctx = context.WithoutCancel(ctx)
	d.pausing <- struct{}{} // a running pause finishes first, and no other can begin
	e.paused = d.suspended.Load()
	var errs []error
	if e.killed && !e.paused { // written early, for clients that ask while the supervisor cleans up
		errs = append(errs, d.writeEnd(e))
	}
	if d.stopTidy != nil {
		d.stopTidy()
		d.tidying.Wait()
	}
	if d.machine != nil {
		if d.server != nil && e.killed && !e.paused {
			// clients must see that the machine has ended, although the socket is still open
			d.server.refuse(fault.Newf(fault.Unavailable, "its machine has ended").
				WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", d.config.Workspace.ID)))
		}
		if d.server != nil && !e.killed && !e.paused {
			d.server.refuse(errStopping)
			if !e.discard {
				d.endServices()
			}
			d.interruptDetached()
			if d.flushErr = d.flush(ctx, e); d.flushErr != nil {
				errs = append(errs, d.flushErr)
				e.reason += "; " + d.flushErr.Error()
			}
		}
		if e.paused { // the processes continue in the resumed machine, so the agent must not kill them
			errs = append(errs, d.machine.Close())
		}
		d.services.cancel()
		d.shells.cancel()
		errs = append(errs, d.machine.Close()) // Close does not wait for the agent
		d.background.Wait()
		d.shells.await()
	}
	d.netlog.close()
	close(d.flushed)
	if !e.killed || e.paused {
		errs = append(errs, d.writeEnd(e))
	}
	if d.server != nil {
		d.server.close()
	}
	if d.activity != nil {
		d.activity.close()
	}
	if d.image != nil {
		d.image.Close()
	}
	if d.server != nil && e.expired && d.config.Workspace.Kind == store.KindVM {
		errs = append(errs, d.remove(ctx))
	}
	d.lock.Release()
	if d.unused != nil {
		d.unused()
	}
	return errors.Join(errs...)
}

// writeEnd records the end of the machine. It does nothing if this supervisor does not have the
// lock.
func (d *daemon) writeEnd(e end) error {
	if d.lock == nil {
		return nil
	}
	return d.folder.WriteEnd(remote.End{Reason: e.reason, Expired: e.expired, At: time.Now()})
}

// flush writes to the disks all data that must be kept.
func (d *daemon) flush(ctx context.Context, e end) error {
	quick, cancel := context.WithTimeout(ctx, quiescePatience)
	defer cancel()
	if e.discard {
		if d.answers(quick) {
			return d.machine.Agent.Flush(quick, false)
		}
		return nil
	}
	if d.answers(quick) {
		if err := d.machine.Agent.Quiesce(quick); err != nil {
			return fault.Wrap(err, "prepare the machine for its end", "")
		}
	}
	saver, ok := d.machine.Machine().(machine.RootSaver)
	if !ok {
		return nil
	}
	ctx, cancel = context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return fault.Wrap(d.saveRoot(ctx, saver), "save the changes to the root", "")
}

// answers reports whether the machine's agent answers in time. If it does not answer, unflushed
// data of programs can be lost, as after a power failure.
func (d *daemon) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	_, err := d.machine.Agent.Status(ctx)
	if err != nil {
		slog.Error("stop machine without its agent", "workspace", d.config.Workspace.ID, "error", err)
	}
	return err == nil
}

// saveRoot saves the changes to the root disk. They replace the changes that were saved before.
func (d *daemon) saveRoot(ctx context.Context, saver machine.RootSaver) error {
	lock, err := d.folder.TakeDisks(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	before := d.disks.Root
	path, next := d.disksFolder().NewRoot(d.disks)
	err = saver.SaveRoot(ctx, path)
	if errors.Is(err, syscall.ENOSPC) { // a few changes fit into the reserved space
		defer d.store.Release(ctx)()
		err = saver.SaveRoot(ctx, path)
	}
	if err != nil {
		return err
	}
	if err := d.store.SetDisks(ctx, d.config.Workspace.ID, next); err != nil {
		return err
	}
	d.disks = next
	return d.drop(ctx, before)
}

// drop removes saved root disks that no snapshot needs. The caller has locked the disks.
func (d *daemon) drop(ctx context.Context, roots []string) error {
	snapshots, err := d.store.Snapshots(ctx, d.config.Workspace.ID)
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		roots = slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return slices.Contains(s.Disks.Root, r) })
	}
	for _, r := range roots {
		if err := os.Remove(d.disksFolder().DiskPath(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// probePatience is how long remove waits for the lifecycle lock, because probes and sweeps lock it
// for a moment too.
const probePatience = time.Second

// remove deletes a machine whose time to live has expired. If another process has locked the
// machine to change it, remove does nothing: that process sees that the machine has expired.
func (d *daemon) remove(ctx context.Context) error {
	patient, cancel := context.WithTimeoutCause(ctx, probePatience, flock.ErrHeld)
	defer cancel()
	lock, err := flock.Take(patient, filepath.Join(d.config.Folder, remote.LifecycleLock), flock.Exclusive, nil)
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := d.store.Delete(ctx, d.config.Workspace.ID); err != nil {
		return err
	}
	return d.folder.Remove(ctx)
}
