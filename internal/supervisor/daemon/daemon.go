// Package daemon implements the supervisor of a workspace's machine, which is a separate process.
//
// The supervisor starts the machine and serves it to any number of clients on a socket in the
// workspace's folder. It records the history of commands and takes snapshots. It stops the machine
// when the time to live expires. It outlives the process that started it, and ends when the machine
// ends.
//
// The supervisor holds a lock while it runs. The kernel releases the lock even if the process
// crashes, so clients can see whether the supervisor runs.
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
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Run runs the supervisor process. It reads its configuration from in, reports the progress of the
// start to out, and returns when the machine has ended. If the machine can't be started, Run
// reports the reason to out. The returned error is for the log.
func Run(ctx context.Context, version string, in io.Reader, out io.WriteCloser) error {
	closeInherited()
	program.CatchIgnored()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // if the starter has died, writes to it must not kill this process during cleanup
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	var o remote.StartConfig
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return fmt.Errorf("read the start config: %w", err)
	}
	starting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	acknowledged := make(chan error, 1)
	go func() { // if the starter dies before it acknowledges the start, the supervisor ends
		if _, err := lines.ReadByte(); err != nil {
			giveUp(errAlone)
			acknowledged <- errAlone
			return
		}
		acknowledged <- nil
	}()
	report := &reporter{to: json.NewEncoder(out)}
	d := newDaemon(version, o)
	defer d.store.Close()
	if err = d.start(starting, report); err == nil {
		if err = report.ready(acknowledged); err == nil && d.resume != nil {
			err = d.resume.finish(ctx)
			report.resumed(err)
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

// released waits until the starter has acknowledged the start. It returns an error if the starter
// has died before that.
func (d *daemon) released(ctx context.Context) error {
	select {
	case <-d.free:
		return nil
	default:
	}
	select {
	case <-d.free:
		return nil
	case <-d.flushed:
		return fault.New(fault.Unavailable, "use workspace", d.config.Workspace.ID, "%w", errAlone)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeInherited closes files that this process inherited by accident, such as the locks and pipes
// of a script. Otherwise they would stay open as long as the machine runs. Files that this process
// opened have their close-on-exec flag set, and stay open.
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

var errAlone = errors.New("the process that started it has ended")

// daemon is one supervisor.
type daemon struct {
	version string
	config  remote.StartConfig
	spec    atomic.Pointer[store.Spec] // the current settings; see reconfigure
	folder  remote.Folder
	store   *store.Store

	lock     *flock.Lock
	image    *environment.ImageRef
	machine  *supervisor.Machine
	server   *server
	activity *activity
	shells   jobs[*shell]
	services jobs[*service]
	commands jobs[*command]
	ends     ends // signals the ends of commands

	background sync.WaitGroup // running services, and commands without a caller

	secrets secrets
	netlog  networkLog
	stored  stored

	memoryKnown atomic.Int64 // the last memory use that the machine has reported

	started time.Time

	free     chan struct{} // closed when the starter has acknowledged the start
	flushed  chan struct{} // closed when the machine's data has been saved or can't be saved
	flushErr error         // set before flushed is closed

	stopOnce sync.Once
	stopping chan struct{} // closed when a stop was requested
	stopFor  end

	resume *resuming // nil if the machine was not restored from a checkpoint

	reconfiguring sync.Mutex // locked while settings change

	pausing   chan struct{} // a value blocks pauses: during a pause or a live snapshot, and from the end on
	unused    func()        // releases the locks of [remote.Folder.Unused], so that waiting callers continue; nil: not locked
	suspended atomic.Bool   // the machine was saved, and another supervisor will resume it

	starts sync.RWMutex // locked while the machine is being saved; a service that is being started again holds it for reading

	snapshots sync.Mutex // locked while disks change
	disks     store.Disks
	merging   interruptible
	tidying   sync.WaitGroup
	stopTidy  context.CancelFunc
}

func newDaemon(version string, o remote.StartConfig) *daemon {
	return &daemon{
		version: version, config: o, folder: remote.Folder(o.Folder), store: store.Open(o.Dirs.State),
		stopping: make(chan struct{}), flushed: make(chan struct{}), free: make(chan struct{}),
		pausing: make(chan struct{}, 1),
	}
}

// disksFolder describes the folder of the workspace's disks.
func (d *daemon) disksFolder() storage.Folder { return d.config.Disks() }

// start starts the machine and serves it.
func (d *daemon) start(ctx context.Context, report *reporter) error {
	var err error
	if d.lock, err = d.folder.Take(); err != nil {
		return err
	}
	if err := errors.Join(d.folder.AwaitMachine(ctx), d.folder.Clear()); err != nil {
		return err
	}
	if d.secrets, err = openSecrets(d.config); err != nil {
		return err
	}
	d.config.Workspace.Secrets = nil
	d.spec.Store(&d.config.Workspace.Spec)
	d.disks = d.config.Workspace.Disks
	driver, root, err := d.prepare(ctx, report.progress)
	if err != nil {
		return err
	}
	network, err := d.network()
	if err != nil {
		return err
	}
	keep := &supervisor.Persistent{ID: d.config.Workspace.ID, Folder: d.folder.Machine(), Started: d.recordProcesses}
	if d.resume, err = d.resuming(ctx); err != nil {
		return d.withStopHint(err, driver)
	}
	if r := d.resume; r != nil {
		keep.Saved, keep.Copied = r.dir, r.copied
	}
	keep.Storage = d.disksFolder().Machine(d.disks)
	spec := d.config.Workspace.Spec
	shape := d.shape()
	d.machine, err = supervisor.Start(ctx, supervisor.Config{
		HostNetwork: d.config.Workspace.Spec.HostNetwork,
		Dirs:        d.config.Dirs, Driver: driver, Root: root, VCPUs: shape.VCPUCount, MemMiB: shape.MemMiB, Progress: report.progress,
		Network:    network,
		Persistent: keep,
	})
	if err != nil {
		return d.withStopHint(err, driver)
	}
	d.started = time.Now()
	d.activity = newActivity(time.Duration(spec.TTLSeconds)*time.Second, time.Duration(spec.AutoPause)*time.Second, d.recordActivity)
	if d.server, err = d.serve(); err != nil {
		return err
	}
	var tidy context.Context
	tidy, d.stopTidy = context.WithCancel(context.Background())
	d.tidying.Go(func() {
		if err := d.disksFolder().RemoveOld(tidy); err != nil && tidy.Err() == nil {
			slog.Error("remove old disks", "workspace", d.config.Workspace.ID, "error", err) // the next start tries to remove them again
		}
	})
	if m, ok := d.machine.Machine().(machine.Merger); ok {
		d.tidying.Go(func() { d.merge(tidy, m) })
	}
	return nil
}

// recordProcesses records the PIDs of the machine's processes in the workspace's folder.
func (d *daemon) recordProcesses(m machine.Machine) error {
	return d.folder.WriteProcesses(processesOf(m))
}

// processesOf returns the PIDs of the processes that the driver started for a machine, without
// their children.
func processesOf(m machine.Machine) []int {
	if p, ok := m.(machine.Processes); ok {
		return p.PIDs()
	}
	return []int{m.PID()}
}

// prepare returns the driver and the root file system of the machine.
func (d *daemon) prepare(ctx context.Context, report progress.Func) (machine.Driver, machine.Root, error) {
	spec := d.config.Workspace.Spec
	environments := environment.Open(d.config.Dirs)
	drivers, err := isolation.New(d.config.Dirs, environments, "")
	if err != nil {
		return nil, machine.Root{}, err
	}
	driver, err := drivers.Of(machine.Isolation(spec.Isolation))
	if err != nil || !driver.Features().Isolated {
		return driver, machine.Root{}, err
	}
	if d.image, err = environments.UseDigest(ctx, spec.Digest, spec.Environment, report); err != nil {
		return nil, machine.Root{}, err
	}
	return driver, machine.Root{Digest: d.image.Digest, Image: d.image.Image}, nil
}

// live waits until the machine must end, and then ends it.
func (d *daemon) live(ctx context.Context) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	for done := false; !done; {
		done = d.liveOn(ctx, signals)
	}
	return d.end(ctx, d.stopFor)
}

// liveOn waits for the next event. It reports whether the machine must end.
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
		d.stop(end{reason: fmt.Sprintf("its time to live of %d s was over", d.spec.Load().TTLSeconds), expired: true})
	case s := <-signals:
		d.stop(end{reason: "its supervisor was ended by the signal " + s.String()})
	case <-ctx.Done():
		d.stop(end{reason: context.Cause(ctx).Error()})
	case <-d.stopping:
	}
	return true
}

// recordActivity records the time of the last activity in the database.
func (d *daemon) recordActivity(last, expires time.Time) error {
	return d.store.Active(context.Background(), d.config.Workspace.ID, last, expires)
}
