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
	"github.com/pyro-mcp/pyro/internal/store"
)

// snapshotPatience bounds a snapshot: a tree is copied.
const snapshotPatience = 10 * time.Minute

// frozenFor is how long a machine's file systems may be frozen: they thaw by themselves if their supervisor forgets them.
const frozenFor = 20 * time.Second

// Snapshot keeps the present state of the workspace.
func (s *server) Snapshot(ctx context.Context, req *connect.Request[supervisorv1.SnapshotRequest]) (*connect.Response[supervisorv1.SnapshotResponse], error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	// What was begun is finished or taken back, whatever becomes of the caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotPatience)
	defer cancel()
	if err := s.daemon.snapshot(ctx, req.Msg.Name, req.Msg.Whole, req.Msg.Live); err != nil {
		return nil, fault.Wrap(err, "create snapshot", req.Msg.Name)
	}
	return connect.NewResponse(&supervisorv1.SnapshotResponse{}), nil
}

func (d *daemon) snapshot(ctx context.Context, name string, whole, live bool) error {
	if live {
		d.pausing.Lock()
		defer d.pausing.Unlock()
	}
	d.merging.giveUp()
	lock, err := d.folder.TakeDisks(ctx) // who asked for this may be gone, and with them the lock that they hold
	if err != nil {
		return err
	}
	defer lock.Release()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	id, disks := d.order.Workspace.ID, d.disksFolder()
	if _, err := d.store.Snapshot(ctx, id, name); fault.KindOf(err) != fault.NotFound {
		if err == nil {
			err = fault.Newf(fault.Exists, "there is one of this name")
		}
		return err
	}
	s, err := disks.Prepare(ctx, d.disks, whole || live)
	if err != nil {
		return err
	}
	hold := func(ctx context.Context) (func() error, error) { return d.freeze(ctx, whole) }
	if live {
		dir, kept, err := disks.NewMemory(s.Kept)
		if err != nil {
			return err
		}
		s.Kept = kept
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
			err = errors.Join(err, disks.DropMemory(context.WithoutCancel(ctx), s.Kept.Memory))
		}
		return err
	}
	if err := disks.Flush(); err != nil {
		return err
	}
	return d.store.AddSnapshot(ctx, id, store.Snapshot{
		Name: name, Disks: s.Kept, Whole: whole, SizeBytes: disks.Size(s.Kept, store.Disks{}), CreatedAt: time.Now(),
	}, s.Next)
}

// freeze has the machine write nothing until release is called.
func (d *daemon) freeze(ctx context.Context, whole bool) (release func() error, err error) {
	frozen, err := d.machine.Agent.Freeze(ctx, client.Mounts{Root: whole, Volume: true}, frozenFor)
	return func() error { return d.thaw(ctx, frozen) }, err
}

// saveForCopies saves the machine, which stands still until release is called.
func (d *daemon) saveForCopies(ctx context.Context, dir string) (release func() error, err error) {
	still, err := d.save(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() error { return still.goOn(ctx) }, nil
}

// copyHeld copies the disks while the machine is held.
func (d *daemon) copyHeld(ctx context.Context, disks storage.Folder, s storage.Snapshot, hold func(context.Context) (func() error, error)) error {
	release, err := hold(ctx)
	if err != nil {
		return err
	}
	return errors.Join(disks.Take(ctx, s), release())
}

// addLayers has the machine, while it is held, write to new layers from then on. The database has them first: at no moment is something written to a layer that it does
// not have.
func (d *daemon) addLayers(ctx context.Context, m machine.Layerer, s *storage.Snapshot, hold func(context.Context) (func() error, error)) error {
	id := d.order.Workspace.ID
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
	case <-d.machine.Done(): // whichever layers it wrote to last, those that the database has now hold it
		return err
	default:
	}
	// The machine writes where it did. The new layers are forgotten before they are removed.
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

// thaw lets the machine write again. What was kept of file systems that thawed before their time need not be consistent.
func (d *daemon) thaw(ctx context.Context, frozen bool) error {
	held, err := d.machine.Agent.Thaw(ctx)
	if err == nil && frozen && !held {
		err = errors.New("the machine's disks could not be held still for long enough")
	}
	return err
}

// copyPaused copies the disks while nothing runs in the machine.
func (d *daemon) copyPaused(ctx context.Context, disks storage.Folder, s *storage.Snapshot, whole bool) (err error) {
	if keeper, ok := d.machine.Machine().(machine.RootKeeper); ok && whole {
		path, kept := disks.NewRoot(s.Kept)
		if err := keeper.KeepRoot(ctx, path); err != nil {
			return err
		}
		s.Kept = kept
		s.RootTaken()
	}
	if err := d.machine.Agent.Flush(ctx, whole); err != nil {
		return err
	}
	if pauser, ok := d.machine.Machine().(machine.Pauser); ok {
		if err := pauser.Pause(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.unpause(ctx)) }()
	}
	return disks.Take(ctx, *s)
}
