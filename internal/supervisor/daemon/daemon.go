// Package daemon is the supervisor of a workspace's machine, as a process of its own.
//
// It owns the machine: starts it, serves it to any number of pyros on a socket in the workspace's folder, keeps the history of its commands, takes snapshots
// of it, stops it when its time is over, and dies with it. It outlives whoever started it. That it runs is that it holds a lock, which the kernel takes from it
// however it ends; so whoever asks is told the truth.
package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Run is the process: it reads its order from in, tells on out how the start goes, and returns when the machine has ended. The error is for the log: what
// kept the machine from starting has been told.
func Run(ctx context.Context, version string, in io.Reader, out io.WriteCloser) error {
	closeInherited()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a starter that is gone is no reason to die in the middle of tidying up
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	var o remote.Order
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	starting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	word := make(chan error, 1)
	go func() { // until the word is given, whoever starts this wants it to end with them
		if _, err := lines.ReadByte(); err != nil {
			giveUp(errAlone)
			word <- errAlone
			return
		}
		word <- nil
	}()
	report := &reporter{to: json.NewEncoder(out)}
	d := &daemon{version: version, order: o, folder: remote.Folder(o.Folder), store: store.Open(o.Dirs.State), stopping: make(chan struct{}), settled: make(chan struct{}), free: make(chan struct{})}
	defer d.store.Close()
	if err = d.start(starting, report); err == nil {
		if err = report.ready(word); err == nil && d.resume != nil {
			err = d.resume.settle(ctx)
			report.goesOn(err)
		}
	} else {
		report.failed(err)
	}
	out.Close()
	if err != nil {
		return errors.Join(err, d.end(ctx, end{reason: "it could not be started: " + err.Error(), killed: true}))
	}
	close(d.free)
	return d.live(ctx)
}

// released waits until whoever started the supervisor has let it go, and fails where they died instead.
func (d *daemon) released(ctx context.Context) error {
	select {
	case <-d.free:
		return nil
	default:
	}
	select {
	case <-d.free:
		return nil
	case <-d.settled:
		return fault.New(fault.Unavailable, "use workspace", d.order.Workspace.ID, "%w", errAlone)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeInherited closes what whoever started this had open and did not mean to hand on, such as the locks and pipes of a script: a supervisor would keep them
// for as long as its machine runs. What this process opens itself is told by its close-on-exec flag.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

var errAlone = errors.New("whoever started it is gone")

// daemon is one supervisor.
type daemon struct {
	version string
	order   remote.Order
	folder  remote.Folder
	store   *store.Store

	lock     *flock.Lock
	lease    *environment.Lease
	machine  *supervisor.Machine
	server   *server
	activity *activity
	shells   shells
	services services
	commands sync.Map       // *running by id
	ends     ends           // of commands
	followed sync.WaitGroup // commands without a caller
	secrets  secrets
	netlog   networkLog
	stored   stored

	started time.Time

	free      chan struct{} // closed when whoever started this has let it go
	settled   chan struct{} // closed when nothing of the machine is left to be kept, or can be
	settleErr error         // set before

	stopOnce sync.Once
	stopping chan struct{} // closed when the end has been asked for
	stopFor  end

	resume *resuming // nil: the machine started anew

	pausing sync.Mutex  // held while the machine is paused
	unused  func()      // lets those who use the workspace go on, when this has ended; nil: nobody waits
	left    atomic.Bool // the machine was saved, and goes on without this supervisor

	snapshots sync.Mutex // held while disks change
	disks     store.Disks
	merging   yielding
	tidying   sync.WaitGroup
	stopTidy  context.CancelFunc
}

// disksFolder is where the workspace's disks are.
func (d *daemon) disksFolder() storage.Folder { return d.order.Disks() }

// start starts the machine and serves it.
func (d *daemon) start(ctx context.Context, report *reporter) error {
	var err error
	if d.lock, err = d.folder.Take(); err != nil {
		return err
	}
	if err := errors.Join(d.folder.AwaitMachine(ctx), d.folder.Clear()); err != nil {
		return err
	}
	if d.secrets, err = openSecrets(d.order); err != nil {
		return err
	}
	d.order.Workspace.Secrets = nil
	d.disks = d.order.Workspace.Disks
	driver, root, err := d.prepare(ctx, report.progress)
	if err != nil {
		return err
	}
	network, err := d.network()
	if err != nil {
		return err
	}
	keep := &supervisor.Kept{ID: d.order.Workspace.ID, Folder: d.folder.Machine(), Started: d.noteProcesses}
	if d.resume, err = d.resuming(ctx); err != nil {
		return d.hopeless(err, driver)
	}
	if r := d.resume; r != nil {
		keep.Memory, keep.Copied = r.dir, r.copied
	}
	keep.Storage = d.disksFolder().Machine(d.disks)
	spec := d.order.Workspace.Spec
	d.machine, err = supervisor.Start(ctx, supervisor.Config{
		Dirs: d.order.Dirs, Driver: driver, Root: root, VCPUs: spec.VCPUCount, MemMiB: spec.MemMiB, Progress: report.progress,
		Network: network,
		Keep:    keep,
	})
	if err != nil {
		return d.hopeless(err, driver)
	}
	d.started = time.Now()
	d.activity = newActivity(time.Duration(spec.TTLSeconds)*time.Second, time.Duration(spec.AutoPause)*time.Second, d.noteActivity)
	if d.server, err = d.serve(); err != nil {
		return err
	}
	var tidy context.Context
	tidy, d.stopTidy = context.WithCancel(context.Background())
	d.tidying.Go(func() {
		if err := d.disksFolder().RemoveOld(tidy); err != nil && tidy.Err() == nil {
			slog.Error("remove old disks", "workspace", d.order.Workspace.ID, "error", err) // the next start tries again
		}
	})
	if m, ok := d.machine.Machine().(machine.Merger); ok {
		d.tidying.Go(func() { d.merge(tidy, m) })
	}
	return nil
}

// noteProcesses notes the processes of the machine.
func (d *daemon) noteProcesses(m machine.Machine) error {
	return d.folder.WriteProcesses(processesOf(m))
}

// processesOf gives the processes of a machine that were started for it, but none that these start.
func processesOf(m machine.Machine) []int {
	if p, ok := m.(machine.Processes); ok {
		return p.PIDs()
	}
	return []int{m.PID()}
}

// prepare finds the driver that the workspace is bound to, and its environment.
func (d *daemon) prepare(ctx context.Context, report progress.Func) (machine.Driver, machine.Root, error) {
	spec := d.order.Workspace.Spec
	environments := environment.Open(d.order.Dirs)
	drivers, err := isolation.New(d.order.Dirs, environments, "")
	if err != nil {
		return nil, machine.Root{}, err
	}
	driver, err := drivers.Of(machine.Isolation(spec.Isolation))
	if err != nil || !driver.Features().Isolated {
		return driver, machine.Root{}, err
	}
	if d.lease, err = environments.UseDigest(ctx, spec.Digest, spec.Environment, report); err != nil {
		return nil, machine.Root{}, err
	}
	return driver, machine.Root{Digest: d.lease.Digest, Image: d.lease.Image}, nil
}

// live lives until the machine ends, its time is over, or somebody wants it stopped.
func (d *daemon) live(ctx context.Context) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	for done := false; !done; {
		done = d.liveOn(ctx, signals)
	}
	return d.end(ctx, d.stopFor)
}

// liveOn waits for something to happen, and tells whether that was the end.
func (d *daemon) liveOn(ctx context.Context, signals <-chan os.Signal) bool {
	select {
	case <-d.activity.idle():
		return d.autoPause(ctx)
	case <-d.machine.Done():
		reason := "its machine ended"
		if err := d.machine.Err(); err != nil {
			reason = err.Error()
		}
		d.stop(end{reason: reason, killed: true})
	case <-d.activity.expired():
		d.stop(end{reason: fmt.Sprintf("its time to live of %d s was over", d.order.Workspace.Spec.TTLSeconds), expired: true})
	case s := <-signals:
		d.stop(end{reason: "its supervisor was ended by the signal " + s.String()})
	case <-ctx.Done():
		d.stop(end{reason: context.Cause(ctx).Error()})
	case <-d.stopping:
	}
	return true
}

// noteActivity keeps in the database when something was last done.
func (d *daemon) noteActivity(last, expires time.Time) error {
	return d.store.Active(context.Background(), d.order.Workspace.ID, last, expires)
}
