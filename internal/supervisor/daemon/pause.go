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

// pausePatience is how long a pause can take. A pause writes all memory of the machine to disk.
const pausePatience = 10 * time.Minute

// Pause saves the machine and ends it.
func (s *server) Pause(ctx context.Context, req *connect.Request[supervisorv1.PauseRequest]) (*connect.Response[supervisorv1.PauseResponse], error) {
	d := s.daemon
	if err := d.released(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pausePatience)
	defer cancel()
	if err := d.pause(ctx); err != nil {
		return nil, fault.Wrap(err, "pause workspace", d.config.Workspace.ID)
	}
	d.stop(end{reason: fault.Printable(req.Msg.Reason)})
	<-d.flushed
	return connect.NewResponse(&supervisorv1.PauseResponse{}), nil
}

// pause saves the machine, so that another supervisor can resume it. If pause fails, the machine
// continues here. Otherwise the machine stays paused until it is closed.
func (d *daemon) pause(ctx context.Context) (err error) {
	d.pausing <- struct{}{}
	defer func() { <-d.pausing }()
	if d.suspended.Load() {
		return nil
	}
	if err := d.responds(ctx); err != nil {
		return err
	}
	if err := d.mergeIfManyLayers(ctx); err != nil && ctx.Err() == nil {
		slog.Error("merge layers", "workspace", d.config.Workspace.ID, "error", err)
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
	dir, next, err := disks.NewCheckpoint(d.disks)
	if err != nil {
		return err
	}
	still, err := d.save(ctx, dir)
	if err == nil {
		if err = disks.Flush(); err == nil {
			err = d.store.SetDisks(ctx, d.config.Workspace.ID, next)
		}
		if err == nil {
			still.leave()
			return nil
		}
		err = errors.Join(err, still.resume(ctx))
	}
	return errors.Join(err, disks.RemoveCheckpoint(context.WithoutCancel(ctx), next.Checkpoint))
}

// responds returns an error if the agent does not answer within resumePatience. The end of the
// supervisor waits for a pause, so a pause of such a machine must not wait for pausePatience.
func (d *daemon) responds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumePatience, fault.Newf(fault.Unavailable, "its machine does not answer").
		WithHint("%s", fault.Act("workspace_stop", "pyro workspace stop %s", d.config.Workspace.ID)))
	defer cancel()
	_, err := d.machine.Agent.Status(ctx)
	return err
}

// autoPauseAgain is the delay before another attempt if a pause has failed, for example because the
// disk is full.
const autoPauseAgain = time.Minute

// autoPause pauses the machine if no client uses the workspace. It reports whether it paused the
// machine. New callers block until the workspace is paused, and then resume it.
func (d *daemon) autoPause(ctx context.Context) bool {
	release, err := d.folder.Unused()
	if err != nil {
		d.activity.again(time.Second)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pausePatience)
	defer cancel()
	if err := d.pause(ctx); err != nil {
		slog.Error("pause unused workspace", "workspace", d.config.Workspace.ID, "error", err)
		release()
		d.activity.again(autoPauseAgain)
		return false
	}
	d.unused = release
	d.stop(end{reason: fmt.Sprintf("it was not used for %d s", d.config.Workspace.Spec.AutoPause)})
	return true
}

// heldFor is how long the agent keeps the machine's processes frozen. The machine's own clock
// measures this time, and continues when the saved machine is resumed. The next supervisor waits
// less than heldFor for the agent. So no process runs before the machine has been renewed. The
// agent allows no longer time.
const heldFor = time.Minute

// savedMachine is a machine that was saved and is still paused. The outputs of its jobs are
// blocked.
type savedMachine struct {
	daemon *daemon
	held   []*redactingWriter
	frozen bool

	allowRestarts func()
}

// save saves the machine and a checkpoint of its jobs. If it fails, the machine continues.
func (d *daemon) save(ctx context.Context, dir string) (_ *savedMachine, err error) {
	m := d.machine.Machine()
	saver, ok := m.(machine.Saver)
	if !ok {
		return nil, fault.Newf(fault.Unsupported, "a machine with the isolation %s can't be saved", d.config.Workspace.Spec.Isolation).
			WithHint("%s keeps its files", fault.Act("workspace_stop", "pyro workspace stop %s", d.config.Workspace.ID))
	}
	if err := d.replaced(m.PID()); err != nil {
		return nil, err
	}
	allowRestarts := d.holdRestarts(ctx)
	defer func() {
		if err != nil {
			allowRestarts()
		}
	}()
	if err := d.machine.Agent.ReleaseEnded(ctx); err != nil {
		return nil, err
	}
	// The disks must be consistent even without the saved memory, because the memory might get
	// lost. And in a resumed machine, no process must run before the clock is set and the random
	// number generator has fresh entropy.
	frozen, err := d.machine.Agent.Hold(ctx, client.Mounts{Root: true, Volume: true}, heldFor)
	if err != nil {
		return nil, err
	}
	s, had := &savedMachine{daemon: d, frozen: frozen, allowRestarts: allowRestarts}, d.connections()
	if err := saver.Save(ctx, dir); err != nil {
		return nil, errors.Join(err, d.thawAndRenew(ctx, false))
	}
	if s.held, err = d.saveJobs(dir, had); err != nil {
		return nil, errors.Join(err, s.resume(ctx))
	}
	return s, nil
}

// replaced returns an error if pyro's or the machine's executable file was replaced since the
// start. Only the same executables can resume a saved machine, so a running workspace can't be
// paused after an upgrade.
func (d *daemon) replaced(machine int) error {
	for _, pid := range []int{os.Getpid(), machine} {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if program, gone := strings.CutSuffix(path, " (deleted)"); err == nil && gone {
			return fault.Newf(fault.Unsupported, "%s was replaced since the machine was started: a paused machine could not be resumed", fault.Printable(program)).
				WithHint("%s keeps its files", fault.Act("workspace_stop", "pyro workspace stop %s", d.config.Workspace.ID))
		}
	}
	return nil
}

// resume continues the machine in this supervisor. It releases the outputs of jobs when the
// machine's clock has been set.
func (s *savedMachine) resume(ctx context.Context) error {
	err := s.daemon.unpause(ctx)
	if err == nil {
		err = s.daemon.thawAndRenew(ctx, s.frozen)
	}
	for _, o := range s.held {
		o.release(false)
	}
	s.allowRestarts()
	return err
}

// resumePatience is how long a machine can take to continue and to set its clock.
const resumePatience = 30 * time.Second

// unpause resumes the machine's processors. If that fails, it ends the machine, because clients
// could not distinguish it from a machine that hangs.
func (d *daemon) unpause(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumePatience)
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
	d.stop(end{reason: "its machine was stopped and could not continue: " + err.Error(), killed: true})
	return errors.Join(err, d.machine.Close())
}

// thawAndRenew lets the machine write to its disks again, and sets its clock.
func (d *daemon) thawAndRenew(ctx context.Context, frozen bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumePatience)
	defer cancel()
	return errors.Join(d.thaw(ctx, frozen), d.machine.Renew(ctx))
}

// leave marks the machine as one that another supervisor will resume.
func (s *savedMachine) leave() {
	s.daemon.suspended.Store(true)
	for _, o := range s.held {
		o.release(true)
	}
	s.allowRestarts()
}
