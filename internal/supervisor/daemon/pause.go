package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// pausePatience bounds a pause: all the memory of a machine is written.
const pausePatience = 10 * time.Minute

// Pause writes down the machine and ends it.
func (s *server) Pause(ctx context.Context, req *connect.Request[supervisorv1.PauseRequest]) (*connect.Response[supervisorv1.PauseResponse], error) {
	d := s.daemon
	if err := d.released(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pausePatience)
	defer cancel()
	if err := d.pause(ctx); err != nil {
		return nil, fault.Wrap(err, "pause workspace", d.order.Workspace.ID)
	}
	d.stop(end{reason: fault.Printable(req.Msg.Reason)})
	<-d.settled
	return connect.NewResponse(&supervisorv1.PauseResponse{}), nil
}

// pause writes down the machine, for another supervisor to have it go on. With an error it goes on here as if nothing had been; else it stands still for ever.
func (d *daemon) pause(ctx context.Context) (err error) {
	d.pausing.Lock()
	defer d.pausing.Unlock()
	if d.left.Load() {
		return nil
	}
	if err := d.makeRoom(ctx); err != nil && ctx.Err() == nil {
		slog.Error("merge layers", "workspace", d.order.Workspace.ID, "error", err)
	}
	d.server.refuse(errPausing)
	defer func() {
		if err != nil {
			d.server.refuse(nil)
		}
	}()
	d.server.drain(ctx)
	d.merging.giveUp()
	lock, err := d.folder.TakeDisks(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	d.snapshots.Lock()
	defer d.snapshots.Unlock()
	disks := d.disksFolder()
	dir, next, err := disks.NewMemory(d.disks)
	if err != nil {
		return err
	}
	still, err := d.save(ctx, dir)
	if err == nil {
		if err = disks.Flush(); err == nil {
			err = d.store.SetDisks(ctx, d.order.Workspace.ID, next)
		}
		if err == nil {
			still.leave()
			return nil
		}
		err = errors.Join(err, still.goOn(ctx))
	}
	return errors.Join(err, disks.DropMemory(context.WithoutCancel(ctx), next.Memory))
}

// autoPauseAgain is when a pause is tried again that could not be done, for want of space for one.
const autoPauseAgain = time.Minute

// autoPause pauses the machine because nobody uses it, and tells whether it did. Who is about to use the workspace waits meanwhile, and finds it paused.
func (d *daemon) autoPause(ctx context.Context) bool {
	release, err := d.folder.Unused()
	if err != nil {
		d.activity.again(time.Second)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pausePatience)
	defer cancel()
	if err := d.pause(ctx); err != nil {
		slog.Error("pause workspace that nobody uses", "workspace", d.order.Workspace.ID, "error", err)
		release()
		d.activity.again(autoPauseAgain)
		return false
	}
	d.unused = release
	d.stop(end{reason: fmt.Sprintf("nothing was done with it for %d s", d.order.Workspace.Spec.AutoPause)})
	return true
}

// heldFor is how long the processes of a machine may be held, by the machine's own clock, which goes on where it was saved: longer than whoever has it go on waits for its
// agent, so that none of them runs before the machine is renewed, and as long as the agent takes at most. A machine whose supervisor forgets it ends anyway.
const heldFor = time.Minute

// still is a machine that was saved, and stands still with all that takes what it prints.
type still struct {
	daemon *daemon
	held   []*outlet
	frozen bool
}

// save writes down the machine, and how what runs in it stands. With an error the machine goes on.
func (d *daemon) save(ctx context.Context, dir string) (*still, error) {
	m := d.machine.Machine()
	saver, ok := m.(machine.Saver)
	if !ok {
		return nil, fault.Newf(fault.Unsupported, "what runs with the isolation %s can't be written down", d.order.Workspace.Spec.Isolation).
			WithHint("%s keeps its files", fault.Act("workspace_stop", "pyro workspace stop %s", d.order.Workspace.ID))
	}
	if err := d.replaced(m.PID()); err != nil {
		return nil, err
	}
	if err := d.machine.Agent.Forget(ctx); err != nil {
		return nil, err
	}
	// What is on the disks has to do without the memory, too, should that be lost. And nothing runs in who goes on before it has the time, and a random pool of its own.
	frozen, err := d.machine.Agent.Hold(ctx, client.Mounts{Root: true, Volume: true}, heldFor)
	if err != nil {
		return nil, err
	}
	s, had := &still{daemon: d, frozen: frozen}, d.connections()
	if err := saver.Save(ctx, dir); err != nil {
		return nil, errors.Join(err, d.wake(ctx, false))
	}
	if s.held, err = d.stand(dir, had); err != nil {
		return nil, errors.Join(err, s.goOn(ctx))
	}
	return s, nil
}

// replaced says where a program has been replaced that the machine runs under: what is written down can be gone on with by the same ones alone, so after an upgrade
// what runs is not put away.
func (d *daemon) replaced(machine int) error {
	for _, pid := range []int{os.Getpid(), machine} {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if program, gone := strings.CutSuffix(path, " (deleted)"); err == nil && gone {
			return fault.Newf(fault.Unsupported, "%s was replaced since the machine was started: paused, it could not go on", fault.Printable(program)).
				WithHint("%s keeps its files", fault.Act("workspace_stop", "pyro workspace stop %s", d.order.Workspace.ID))
		}
	}
	return nil
}

// goOn has the machine go on here. What it prints is taken once it has the time.
func (s *still) goOn(ctx context.Context) error {
	err := s.daemon.unpause(ctx)
	if err == nil {
		err = s.daemon.wake(ctx, s.frozen)
	}
	for _, o := range s.held {
		o.release(false)
	}
	return err
}

// goOnPatience bounds how long a machine may take to go on that stands still, and to be given the time.
const goOnPatience = 30 * time.Second

// unpause has the processors of a machine go on. One that can't ends: nobody could tell it from one that hangs.
func (d *daemon) unpause(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goOnPatience)
	defer cancel()
	err := d.machine.Machine().(machine.Pauser).Resume(ctx)
	if err == nil {
		return nil
	}
	select {
	case <-d.machine.Done():
		return err
	default:
	}
	d.stop(end{reason: "its machine stood still and could not go on: " + err.Error(), killed: true})
	return errors.Join(err, d.machine.Close())
}

// wake lets a machine write again that stood still, and gives it the time that has passed.
func (d *daemon) wake(ctx context.Context, frozen bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goOnPatience)
	defer cancel()
	return errors.Join(d.thaw(ctx, frozen), d.machine.Renew(ctx))
}

// leave has it go on elsewhere, and nothing of it here.
func (s *still) leave() {
	s.daemon.left.Store(true)
	for _, o := range s.held {
		o.release(true)
	}
}
