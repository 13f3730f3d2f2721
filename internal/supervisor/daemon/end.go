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

// end is why a supervisor ends.
type end struct {
	reason  string
	expired bool
	paused  bool // the machine was saved: there is nothing to put in order either
	killed  bool // the machine has ended by itself, or never was used: there is nothing to put in order
	discard bool // what the volume holds is all that is to be kept
}

// stop asks for the end. The first reason counts.
func (d *daemon) stop(e end) {
	d.stopOnce.Do(func() {
		d.stopFor = e
		close(d.stopping)
	})
}

const (
	// agentPatience bounds how long its agent may take to answer when a machine is to be stopped. One
	// that does not answer can't kill its processes either: the machine is ended with them.
	agentPatience = 2 * time.Second
	// quiescePatience bounds how long a machine may take to put everything in order.
	quiescePatience = 30 * time.Second
	// keepPatience bounds how long it may take to write down what was changed of a root, which can be gigabytes.
	keepPatience = 30 * time.Minute
)

// end ends the machine with nothing lost, tells why, and gives everything back.
func (d *daemon) end(ctx context.Context, e end) error {
	ctx = context.WithoutCancel(ctx)
	d.pausing.Lock() // one that is under way comes first
	defer d.pausing.Unlock()
	e.paused = d.left.Load()
	var errs []error
	if e.killed && !e.paused { // those who ask meanwhile are told
		errs = append(errs, d.writeEnd(e))
	}
	if d.stopTidy != nil {
		d.stopTidy()
		d.tidying.Wait()
	}
	if d.machine != nil {
		if d.server != nil && e.killed && !e.paused {
			// so that nobody takes a machine that is being tidied up after for one that runs
			d.server.refuse(fault.Newf(fault.Unavailable, "its machine has ended").
				WithHint("%s", fault.Act("workspace_start", "pyro workspace start %s", d.order.Workspace.ID)))
		}
		if d.server != nil && !e.killed && !e.paused {
			d.server.refuse(errStopping)
			if !e.discard {
				d.services.end()
			}
			if d.settleErr = d.settle(ctx, e); d.settleErr != nil {
				errs = append(errs, d.settleErr)
				e.reason += "; " + d.settleErr.Error()
			}
		}
		if e.paused { // its programs go on elsewhere: its agent is not told to kill any
			errs = append(errs, d.machine.Close())
		}
		d.services.cancel()
		d.shells.cancel()
		errs = append(errs, d.machine.Close()) // a closed machine's agent is not waited for
		d.services.running.Wait()
		d.shells.await()
		d.followed.Wait()
	}
	d.netlog.close()
	close(d.settled)
	if !e.killed || e.paused {
		errs = append(errs, d.writeEnd(e))
	}
	if d.server != nil {
		d.server.close()
	}
	if d.activity != nil {
		d.activity.close()
	}
	if d.lease != nil {
		d.lease.Close()
	}
	if d.server != nil && e.expired && d.order.Workspace.Kind == store.KindVM {
		errs = append(errs, d.remove(ctx))
	}
	d.lock.Release()
	if d.unused != nil {
		d.unused()
	}
	return errors.Join(errs...)
}

// writeEnd keeps why the machine ended. One that has no lock has no say.
func (d *daemon) writeEnd(e end) error {
	if d.lock == nil {
		return nil
	}
	return d.folder.WriteEnd(remote.End{Reason: e.reason, Expired: e.expired, At: time.Now()})
}

// settle has what the machine was told to keep be on the disks.
func (d *daemon) settle(ctx context.Context, e end) error {
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
			return fault.Wrap(err, "put the machine in order", "")
		}
	}
	keeper, ok := d.machine.Machine().(machine.RootKeeper)
	if !ok {
		return nil
	}
	ctx, cancel = context.WithTimeout(ctx, keepPatience)
	defer cancel()
	return fault.Wrap(d.keepRoot(ctx, keeper), "keep what was changed of the root", "")
}

// answers reports whether the machine's agent answers in time. What programs had written without
// flushing it may be missing after the end of one that does not, as after a power failure.
func (d *daemon) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	_, err := d.machine.Agent.Status(ctx)
	if err != nil {
		slog.Error("stop machine without its agent", "workspace", d.order.Workspace.ID, "error", err)
	}
	return err == nil
}

// keepRoot writes down what was changed of the root, in the place of what was written down before.
func (d *daemon) keepRoot(ctx context.Context, keeper machine.RootKeeper) error {
	lock, err := d.folder.TakeDisks(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	before := d.disks.Root
	path, next := d.disksFolder().NewRoot(d.disks)
	err = keeper.KeepRoot(ctx, path)
	if errors.Is(err, syscall.ENOSPC) { // what little was changed fits in the reserve
		d.store.Release()
		defer d.store.Reserve()
		err = keeper.KeepRoot(ctx, path)
	}
	if err != nil {
		return err
	}
	if err := d.store.SetDisks(ctx, d.order.Workspace.ID, next); err != nil {
		return err
	}
	d.disks = next
	return d.drop(ctx, before)
}

// drop removes what had been kept of a root, unless a snapshot has it. The lock of the disks is held.
func (d *daemon) drop(ctx context.Context, roots []string) error {
	kept, err := d.store.Snapshots(ctx, d.order.Workspace.ID)
	if err != nil {
		return err
	}
	for _, s := range kept {
		roots = slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return slices.Contains(s.Disks.Root, r) })
	}
	for _, r := range roots {
		if err := os.Remove(d.disksFolder().DiskPath(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// remove forgets a machine that is not to outlive its time. Where somebody is changing what it is, they see that its time is over.
func (d *daemon) remove(ctx context.Context) error {
	lock, err := flock.Try(filepath.Join(d.order.Folder, remote.LifecycleLock), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := d.store.Delete(ctx, d.order.Workspace.ID); err != nil {
		return err
	}
	return d.folder.Remove(ctx)
}
