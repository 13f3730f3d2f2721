package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// resuming is the taking over of a machine that was saved. Until it is settled the workspace is still paused for everybody else, and nothing runs in the machine but its
// agent: who dies before has done nothing.
type resuming struct {
	daemon *daemon
	memory string // among the disks
	dir    string // of it
	copied bool   // the machine that was saved is another workspace's
	stood  standing
	next   store.Disks
	lock   *flock.Lock
}

// resuming begins to take over the machine that was saved; nil where there is none.
func (d *daemon) resuming(ctx context.Context) (r *resuming, err error) {
	if d.disks.Memory == "" {
		return nil, nil
	}
	disks := d.disksFolder()
	r = &resuming{daemon: d, memory: d.disks.Memory, dir: disks.DiskPath(d.disks.Memory)}
	if r.stood, err = readStanding(r.dir); err != nil {
		return nil, err
	}
	r.copied = r.stood.Workspace != d.order.Workspace.ID
	if r.lock, err = d.folder.TakeDisks(ctx); err != nil {
		return nil, err
	}
	if r.next, err = disks.GoOn(ctx, d.disks); err != nil {
		r.lock.Release()
		return nil, err
	}
	d.disks = r.next
	return r, nil
}

// hopeless gives the error of a start a way out where the machine that was saved can't go on.
func (d *daemon) hopeless(err error, driver machine.Driver) error {
	k := fault.KindOf(err)
	if d.order.Workspace.Disks.Memory == "" || d.resume != nil && d.resume.copied || k != fault.Corrupt && k != fault.Precondition {
		return err
	}
	id, left := d.order.Workspace.ID, "its files, and loses what ran"
	if !driver.Features().BlockDisks { // what was changed of the root is in that memory alone
		left = "/workspace, and loses what ran and what was changed elsewhere since it was last stopped"
	}
	return fault.Newf(k, "%w", err).WithHint("%s && %s keeps %s", fault.Act("workspace_stop", "pyro workspace stop %s", id), fault.Act("workspace_start", "pyro workspace start %s", id), left)
}

// settle has the workspace run, for everybody, then what was saved run, and takes that over.
func (r *resuming) settle(ctx context.Context) error {
	defer r.lock.Release()
	d := r.daemon
	if err := d.store.SetDisks(ctx, d.order.Workspace.ID, r.next); err != nil {
		return err
	}
	if n := d.machine.Network(); n != nil {
		n.Sever(r.stood.Connections)
	}
	if err := d.machine.Wake(ctx); err != nil {
		return errors.Join(err, r.giveUp(ctx))
	}
	for _, s := range r.stood.Shells {
		if err := d.shells.takeOver(d, s, r.dir); err != nil {
			slog.Error("take over shell", "workspace", d.order.Workspace.ID, "shell", s.ID, "error", err)
		}
	}
	for _, s := range r.stood.Services {
		if err := d.takeOverService(ctx, s, r); err != nil {
			slog.Error("take over service", "workspace", d.order.Workspace.ID, "service", s.Record.Name, "error", err)
		}
	}
	for _, c := range r.stood.Commands {
		d.takeOverCommand(ctx, c, r.copied)
	}
	d.tidying.Go(func() {
		if err := d.disksFolder().DropMemory(ctx, r.memory); err != nil { // the next start tries again
			slog.Error("remove memory", "workspace", d.order.Workspace.ID, "error", err)
		}
	})
	return nil
}

// giveUp has the workspace be paused as it was, where its machine could not be woken.
func (r *resuming) giveUp(ctx context.Context) error {
	d := r.daemon
	return errors.Join(d.machine.Close(), d.store.SetDisks(context.WithoutCancel(ctx), d.order.Workspace.ID, d.order.Workspace.Disks))
}

// takeOver goes on with a shell where another supervisor left it.
func (all *shells) takeOver(d *daemon, stood standingShell, dir string) error {
	kept, err := os.ReadFile(shellFile(dir, stood.ID))
	if err != nil {
		return err
	}
	s := &shell{
		of: d, id: stood.ID, execID: stood.ExecID, tag: stood.Tag, pid: stood.PID, argv: stood.Argv, cwd: stood.Cwd, opened: stood.Opened,
		switches: stood.Switches, cols: stood.Cols, rows: stood.Rows, taken: stood.Read, ended: stood.Ended, exit: stood.Exit, done: make(chan struct{}),
	}
	from := &client.Position{Stdout: stood.Out.Came, Input: stood.Taken}
	if stood.Errs == nil {
		s.log = transcript.Restore(shellOutput, stood.Kept, kept)
		s.print(stood.Out, point{})
	} else {
		errs, err := os.ReadFile(shellErrors(dir, stood.ID))
		if err != nil {
			return err
		}
		s.log, s.errs = transcript.Restore(backgroundOutput, stood.Kept, kept), transcript.Restore(backgroundOutput, stood.KeptErrs, errs)
		s.print(stood.Out, *stood.Errs)
		from = &client.Position{Stdout: stood.Out.Came, Stderr: stood.Errs.Came}
	}
	s.ready.init(false)
	s.in.init()
	s.in.taken, s.in.typed = stood.Taken, stood.Typed
	var life context.Context
	life, s.cancel = context.WithCancelCause(context.Background())
	if err := all.add(s); err != nil {
		s.cancel(nil)
		return err
	}
	if !stood.Ended.IsZero() {
		if stood.Broken != "" {
			s.err = errors.New(stood.Broken)
		}
		s.in.close()
		s.endLogs()
		s.cancel(nil)
		close(s.done)
		return nil
	}
	go s.run(life, client.Command{ID: s.execID, From: from})
	return nil
}

// takeOverService goes on with a service where another supervisor left it.
func (d *daemon) takeOverService(ctx context.Context, stood standingService, r *resuming) (err error) {
	life, cancel := context.WithCancelCause(context.Background())
	v := &service{of: d, execID: stood.ExecID, record: stood.Record, cancel: cancel, opened: make(chan struct{}), done: make(chan struct{})}
	folder := d.folder.Service(v.record.Name)
	if err = errors.Join(remote.CheckServiceName(v.record.Name), os.MkdirAll(folder.Path(), 0o700)); err != nil {
		return err
	}
	for i, path := range folder.Logs() {
		if v.logs[i], err = r.log(v.record.Name, i, path, stood.Gone[i]); err != nil {
			return errors.Join(err, v.closeLogs())
		}
	}
	v.print(stood.Out, stood.Errs)
	close(v.opened)
	if err := d.services.add(v.record.Name, v); err != nil {
		return errors.Join(err, v.closeLogs())
	}
	if err := v.publishAgain(r.copied); err != nil {
		slog.Error("publish ports again", "workspace", d.order.Workspace.ID, "service", v.record.Name, "error", err)
	}
	v.mu.Lock()
	v.save()
	v.mu.Unlock()
	c := client.Command{ID: v.execID, Whole: true, From: &client.Position{Stdout: stood.Out.Came, Stderr: stood.Errs.Came}}
	d.services.running.Go(func() { v.run(life, c) })
	return nil
}

// log goes on with a log of a service: with the workspace's own, or with what another's is kept of.
func (r *resuming) log(name string, stream int, path string, gone int64) (*transcript.File, error) {
	if !r.copied {
		return transcript.GoOnFile(path, remote.ServiceLogBytes)
	}
	kept, err := os.ReadFile(serviceFile(r.dir, name, stream))
	if err != nil {
		return nil, err
	}
	return transcript.RestoreFile(path, remote.ServiceLogBytes, gone, kept)
}

// publishAgain publishes what the service had published: at the same ports of the host, or, where those are another's now, at any.
func (v *service) publishAgain(copied bool) error {
	ports := v.record.Spec.Ports
	v.record.Spec.Ports = nil
	var failed error
	for _, p := range ports {
		err := errTaken
		if !copied {
			err = v.publish([]store.Port{p})
		}
		if err != nil {
			failed = errors.Join(failed, v.publish([]store.Port{{Guest: p.Guest}}))
		}
	}
	return failed
}

var errTaken = errors.New("the machine that was copied has it")

// takeOverCommand follows a command whose caller has been told that it goes on without them, for the history.
func (d *daemon) takeOverCommand(ctx context.Context, stood standingCommand, copied bool) {
	h := &history{daemon: d, begun: make(chan struct{}), command: stood.Command, stdout: stood.Stdout.excerpt(), stderr: stood.Stderr.excerpt()}
	if copied {
		h.begin(ctx)
	} else {
		close(h.begun)
	}
	r := &running{id: stood.ID, history: h, out: d.outlet(&h.stdout, stood.Out), errs: d.outlet(&h.stderr, stood.Errs)}
	d.followed.Go(func() {
		exit, err := d.run(context.Background(), r, client.Command{ID: r.id, From: &client.Position{Stdout: stood.Out.Came, Stderr: stood.Errs.Came}}, nil)
		if d.hasLeft(err) {
			return
		}
		if _, err := h.end(exit, err); err != nil {
			slog.Error("note the end of a command", "workspace", d.order.Workspace.ID, "error", err)
		}
	})
}
