package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/storage"
)

// snapshotPatience is how long a snapshot can take. A snapshot might copy a whole tree.
const snapshotPatience = 10 * time.Minute

// frozenFor is how long a machine's file systems can stay frozen. If the supervisor does not thaw
// them, they thaw on their own.
const frozenFor = 20 * time.Second

// Snapshot saves the current state of the workspace under a name.
func (s *server) Snapshot(ctx context.Context, req *connect.Request[supervisorv1.SnapshotRequest]) (*connect.Response[supervisorv1.SnapshotResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	// A started snapshot is completed or undone, even if the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotPatience)
	defer cancel()
	if err := s.daemon.snapshot(ctx, req.Msg.Name, req.Msg.Whole, req.Msg.Live); err != nil {
		return nil, fault.Wrap(err, "create snapshot", req.Msg.Name)
	}
	return connect.NewResponse(&supervisorv1.SnapshotResponse{}), nil
}

func (d *daemon) snapshot(ctx context.Context, name string, whole, live bool) error {
	if live {
		select {
		case d.pausing <- struct{}{}:
			defer func() { <-d.pausing }()
		case <-d.stopping: // the end of the supervisor waits for this operation
			if d.suspended.Load() {
				return errPausing
			}
			return errStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d.merging.giveUp()
	lock, err := d.folder.TakeDisks(ctx) // the caller has this lock too, but might die before the snapshot is complete
	if err != nil {
		return err
	}
	defer lock.Release()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	if d.suspended.Load() { // the disks of the database include the saved machine, and must not change
		return errPausing
	}
	id, disks := d.config.Workspace.ID, d.disksFolder()
	if _, err := d.store.Snapshot(ctx, id, name); fault.KindOf(err) != fault.NotFound {
		if err == nil {
			err = fault.Newf(fault.Exists, "the workspace has a snapshot with this name")
		}
		return err
	}
	s, err := disks.Prepare(ctx, d.disks, whole || live)
	if err != nil {
		return err
	}
	hold := func(ctx context.Context) (func() error, error) { return d.freeze(ctx, whole) }
	if live {
		dir, withCheckpoint, err := disks.NewCheckpoint(s.Disks)
		if err != nil {
			return err
		}
		s.Disks = withCheckpoint
		hold = func(ctx context.Context) (func() error, error) { return d.saveForCopies(ctx, dir) }
	}
	layerer, layers := d.machine.Machine().(machine.Layerer)
	switch {
	case layers:
		err = d.addLayers(ctx, layerer, &s, hold)
	case live:
		err = d.copyHeld(ctx, disks, s, hold)
	default:
		err = d.copyPaused(ctx, disks, &s, whole)
	}
	if err != nil {
		if live {
			err = errors.Join(err, disks.RemoveCheckpoint(context.WithoutCancel(ctx), s.Disks.Checkpoint))
		}
		return err
	}
	if err := disks.Flush(); err != nil {
		return err
	}
	return d.store.AddSnapshot(ctx, id, disks.Record(name, whole, s), s.Next)
}

// freeze stops all writes to the disks until release is called.
func (d *daemon) freeze(ctx context.Context, whole bool) (release func() error, err error) {
	frozen, err := d.machine.Agent.Freeze(ctx, client.Mounts{Root: whole, Volume: true}, frozenFor)
	return func() error { return d.thaw(ctx, frozen) }, err
}

// saveForCopies saves the machine, and keeps it paused until release is called.
func (d *daemon) saveForCopies(ctx context.Context, dir string) (release func() error, err error) {
	still, err := d.save(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() error { return still.resume(ctx) }, nil
}

// copyHeld copies the disks while the function hold stops writes to them.
func (d *daemon) copyHeld(ctx context.Context, disks storage.Folder, s storage.Snapshot, hold func(context.Context) (func() error, error)) error {
	release, err := hold(ctx)
	if err != nil {
		return err
	}
	return errors.Join(disks.Take(ctx, s), release())
}

// addLayers makes the machine write to new layers. During the change, the function hold stops
// writes to the disks. The layers are first added to the database, so the machine never writes to a
// layer that the database does not contain.
func (d *daemon) addLayers(ctx context.Context, m machine.Layerer, s *storage.Snapshot, hold func(context.Context) (func() error, error)) error {
	id := d.config.Workspace.ID
	if err := d.store.SetDisks(ctx, id, s.Next); err != nil {
		return err
	}
	before := d.disks
	d.disks = s.Next
	release, err := hold(ctx)
	if err == nil {
		if err = m.AddLayers(ctx, s.RootLayer, s.VolumeLayer); err == nil {
			return release()
		}
		err = errors.Join(err, release())
	}
	select {
	case <-d.machine.Done(): // the database already contains all layers to which the machine wrote
		return err
	default:
	}
	// The machine still writes to the old layers. The new layers are removed from the database
	// first, then from the disk.
	if undone := d.store.SetDisks(ctx, id, before); undone != nil {
		return errors.Join(err, undone)
	}
	d.disks = before
	for _, path := range []string{s.RootLayer, s.VolumeLayer} {
		if path != "" {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// thaw lets the machine write again. It returns an error if the file systems thawed earlier,
// because a copy of them might be inconsistent.
func (d *daemon) thaw(ctx context.Context, frozen bool) error {
	held, err := d.machine.Agent.Thaw(ctx)
	if err == nil && frozen && !held {
		err = errors.New("the machine's disks could not be frozen for long enough")
	}
	return err
}

// copyPaused copies the disks. If the driver can pause the machine, it pauses the machine during
// the copy.
func (d *daemon) copyPaused(ctx context.Context, disks storage.Folder, s *storage.Snapshot, whole bool) (err error) {
	if saver, ok := d.machine.Machine().(machine.RootSaver); ok && whole {
		path, withRoot := disks.NewRoot(s.Disks)
		if err := saver.SaveRoot(ctx, path); err != nil {
			return err
		}
		s.Disks = withRoot
		s.RootCopied()
	}
	if err := d.machine.Agent.Flush(ctx, whole); err != nil {
		return err
	}
	if pauser, ok := d.machine.Machine().(machine.Pauser); ok {
		defer func() { err = errors.Join(err, d.unpause(ctx)) }() // even after an error, the machine might be paused
		if err := pauser.Pause(ctx); err != nil {
			return err
		}
	}
	return disks.Take(ctx, *s)
}
