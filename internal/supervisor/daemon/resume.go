package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// resuming is the restore of a saved machine. Until finish is called, the workspace still counts as
// paused, and only the agent runs in the machine. So a failure before finish changes nothing.
type resuming struct {
	daemon     *daemon
	checkpoint string // the name of the saved machine in the folder of disks
	dir        string // the folder of the saved machine
	copied     bool   // whether another workspace saved the machine
	saved      checkpoint
	next       store.Disks
	lock       *flock.Lock
}

// resuming starts to restore the saved machine. It returns nil if there is no saved machine.
func (d *daemon) resuming(ctx context.Context) (r *resuming, err error) {
	if d.disks.Checkpoint == "" {
		return nil, nil
	}
	disks := d.disksFolder()
	r = &resuming{daemon: d, checkpoint: d.disks.Checkpoint, dir: disks.DiskPath(d.disks.Checkpoint)}
	if r.saved, err = readCheckpoint(r.dir); err != nil {
		return nil, err
	}
	r.copied = r.saved.Workspace != d.config.Workspace.ID
	if r.lock, err = d.folder.TakeDisks(ctx); err != nil {
		return nil, err
	}
	if r.next, err = disks.Resume(ctx, d.disks); err != nil {
		r.lock.Release()
		return nil, err
	}
	d.disks = r.next
	return r, nil
}

// withStopHint adds a hint to the error of a start if the saved machine can't be resumed.
func (d *daemon) withStopHint(err error, driver machine.Driver) error {
	k := fault.KindOf(err)
	if d.config.Workspace.Disks.Checkpoint == "" || d.resume != nil && d.resume.copied || k != fault.Corrupt && k != fault.Precondition {
		return err
	}
	id, left := d.config.Workspace.ID, "its files and loses running programs"
	if !driver.Features().BlockDisks { // changes to the root disk are only in the saved machine
		left = "/workspace and loses running programs and all other changes since the last stop"
	}
	return fault.Newf(k, "%w", err).WithHint("%s && %s keeps %s", fault.Act("workspace_stop", "pyro workspace stop %s", id), fault.Act("workspace_start", "pyro workspace start %s", id), left)
}

// finish records that the workspace runs, resumes the programs of the saved machine, and continues
// its jobs.
func (r *resuming) finish(ctx context.Context) error {
	defer r.lock.Release()
	d := r.daemon
	if err := d.store.SetDisks(ctx, d.config.Workspace.ID, r.next); err != nil {
		return err
	}
	if n := d.machine.Network(); n != nil {
		n.ResetConnections(r.saved.Connections)
	}
	if err := d.thawSaved(ctx); err != nil {
		return errors.Join(err, r.giveUp(ctx))
	}
	for _, s := range r.saved.Shells {
		if err := d.resumeShell(ctx, s, r); err != nil {
			slog.Error("resume shell", "workspace", d.config.Workspace.ID, "shell", s.ID, "error", err)
		}
	}
	for _, s := range r.saved.Services {
		if err := d.resumeService(ctx, s, r); err != nil {
			slog.Error("resume service", "workspace", d.config.Workspace.ID, "service", s.Record.Name, "error", err)
		}
	}
	for _, c := range r.saved.Commands {
		d.resumeCommand(ctx, c, r.copied)
	}
	d.tidying.Go(func() {
		if err := d.disksFolder().RemoveCheckpoint(ctx, r.checkpoint); err != nil { // the next start tries to remove it again
			slog.Error("remove checkpoint", "workspace", d.config.Workspace.ID, "error", err)
		}
	})
	return nil
}

// thawSaved resumes the programs of the saved machine, at most for resumePatience. Until it
// returns, the starter holds the lifecycle lock, so nobody can stop or delete the workspace.
func (d *daemon) thawSaved(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumePatience,
		fault.Newf(fault.Unavailable, "the saved machine does not continue within %s", resumePatience))
	defer cancel()
	return d.machine.Resume(ctx)
}

// giveUp restores the paused state of the workspace if the machine could not be thawed.
func (r *resuming) giveUp(ctx context.Context) error {
	d := r.daemon
	return errors.Join(d.machine.Close(), d.store.SetDisks(context.WithoutCancel(ctx), d.config.Workspace.ID, d.config.Workspace.Disks))
}

// resumeShell continues a shell of the saved machine. It omits a detached command that has ended,
// if the machine was copied: the history of this workspace does not contain the command.
func (d *daemon) resumeShell(ctx context.Context, saved savedShell, r *resuming) error {
	if saved.History != nil && r.copied && !saved.Ended.IsZero() {
		return nil
	}
	content, err := os.ReadFile(shellFile(r.dir, saved.ID))
	if err != nil {
		return err
	}
	s := &shell{
		shellID: saved.ID, tag: saved.Tag, argv: saved.Argv, cwd: saved.Cwd, opened: saved.Opened,
		switches: saved.Switches, cols: saved.Cols, rows: saved.Rows, input: saved.Input, consumed: saved.Consumed,
	}
	s.init(d, context.Background(), saved.ExecID)
	s.pid, s.ended, s.exit = saved.PID, saved.Ended, saved.Exit
	if saved.Streams.Stderr == nil {
		s.log = program.RestoreLog(shellOutput, saved.LogFrom, content)
	} else {
		errs, err := os.ReadFile(shellErrors(r.dir, saved.ID))
		if err != nil {
			return err
		}
		s.log, s.errs = program.RestoreLog(backgroundOutput, saved.LogFrom, content), program.RestoreLog(backgroundOutput, saved.ErrsFrom, errs)
	}
	if saved.History != nil {
		s.history = d.resumeHistory(ctx, *saved.History, r.copied)
	}
	s.print(saved.Streams)
	s.ready.init(false)
	s.in.init()
	s.in.accepted, s.in.typed = saved.Accepted, saved.Typed
	if err := d.shells.add(s, s.admit); err != nil {
		s.cancel(nil)
		return err
	}
	if !saved.Ended.IsZero() {
		if saved.Broken != "" {
			s.err = errors.New(saved.Broken)
		}
		s.in.close()
		s.endLogs()
		s.cancel(nil)
		close(s.done)
		return nil
	}
	if s.history != nil {
		s.unused = d.activity.begin()
	}
	go s.run(program.Command{}, saved.Streams.resumeAt(saved.Accepted))
	return nil
}

// resumeService continues a service of the saved machine.
func (d *daemon) resumeService(ctx context.Context, saved savedService, r *resuming) (err error) {
	v := d.newService(saved.ExecID, saved.Record)
	c, err := v.commandOf(saved.Start)
	if err != nil {
		return err
	}
	folder := d.folder.Service(v.record.Name)
	if err = errors.Join(remote.CheckServiceName(v.record.Name), os.MkdirAll(folder.Path(), 0o700)); err != nil {
		return err
	}
	for i, path := range folder.Logs() {
		if v.logs[i], err = r.log(v.record.Name, i, path, saved.Gone[i]); err != nil {
			return errors.Join(err, v.closeLogs())
		}
	}
	v.print(saved.Streams)
	close(v.opened)
	if err := d.services.add(v, v.admit); err != nil {
		return errors.Join(err, v.closeLogs())
	}
	if err := v.publishAgain(r.copied); err != nil {
		slog.Error("publish ports again", "workspace", d.config.Workspace.ID, "service", v.record.Name, "error", err)
	}
	v.mu.Lock()
	v.save()
	v.mu.Unlock()
	d.background.Go(func() { v.run(c, saved.Streams.resumeAt(0)) })
	return nil
}

// commandOf decodes the command that starts the service again. It returns no command if there is no
// restart policy.
func (v *service) commandOf(start []byte) (program.Command, error) {
	if len(start) == 0 {
		return program.Command{}, nil
	}
	v.start = new(programv1.Command)
	if err := proto.Unmarshal(start, v.start); err != nil {
		return program.Command{}, err
	}
	return v.daemon.command(v.start)
}

// log opens a log of a service. If the machine was copied, the log gets the content that the other
// workspace saved.
func (r *resuming) log(name string, stream int, path string, gone int64) (*program.LogFile, error) {
	if !r.copied {
		return program.ResumeLogFile(path, remote.ServiceLogBytes)
	}
	kept, err := os.ReadFile(serviceFile(r.dir, name, stream))
	if err != nil {
		return nil, err
	}
	return program.RestoreLogFile(path, remote.ServiceLogBytes, gone, kept)
}

// publishAgain publishes the service's ports again, at the ports of the host that were wanted. If
// those are in use, it uses the last ones, or any free ports. If the machine was copied, it uses
// any free ports, because the other machine has the ports.
func (v *service) publishAgain(copied bool) error {
	ports := v.record.Spec.Ports
	v.record.Spec.Ports = nil
	var failed error
	for _, p := range ports {
		if copied {
			failed = errors.Join(failed, v.publish([]store.Port{{Guest: p.Guest}}))
			continue
		}
		wanted := cmp.Or(p.Wanted, p.Host)
		err := v.publish([]store.Port{{Guest: p.Guest, Host: wanted}})
		if err != nil && p.Wanted != 0 {
			err = v.publish([]store.Port{{Guest: p.Guest, Host: p.Host, Wanted: wanted}})
		}
		if err != nil {
			failed = errors.Join(failed, v.publish([]store.Port{{Guest: p.Guest, Wanted: wanted}}))
		}
	}
	return failed
}

// resumeCommand continues a command so that the history gets its end. The command's caller has
// already received the error that the workspace was paused.
func (d *daemon) resumeCommand(ctx context.Context, saved savedCommand, copied bool) {
	h := d.resumeHistory(ctx, saved.savedHistory, copied)
	c := &command{history: h}
	c.init(d, context.Background(), saved.ID)
	c.stdout = d.newWriter(&h.stdout, saved.Streams.Stdout)
	if saved.Streams.Stderr != nil {
		c.stderr = d.newWriter(&h.stderr, *saved.Streams.Stderr)
	}
	d.background.Go(func() {
		if _, err := d.follow(c, program.Command{}, saved.Streams.resumeAt(0), nil); err != nil {
			slog.Error("record the end of a command", "workspace", d.config.Workspace.ID, "error", err)
		}
	})
}

// resumeHistory continues the entry of a running command in the history. If the machine was copied,
// the command gets a new entry in the history of this workspace.
func (d *daemon) resumeHistory(ctx context.Context, saved savedHistory, copied bool) *history {
	h := &history{daemon: d, begun: make(chan struct{}), command: saved.Command, stdout: saved.Stdout, stderr: saved.Stderr}
	if copied {
		h.begin(ctx)
	} else {
		close(h.begun)
	}
	return h
}
