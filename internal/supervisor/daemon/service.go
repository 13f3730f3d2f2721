package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

const (
	maxServices = 64              // that run
	stopGrace   = 5 * time.Second // that a service has to end when it is asked to
	endGrace    = 2 * time.Second // that it has when its machine is stopped
	lastLines   = 20              // of its output that the error of one tells that did not become ready
	lastBytes   = 4 << 10         // of them
	lookGrace   = 2 * time.Second // that the agent has to say that the time is over
)

// services are those that were started on this machine.
type services struct {
	mu      sync.Mutex
	all     map[string]*service // by name: those that run, or are being started
	running sync.WaitGroup
}

// service is a program in the background, in one run.
type service struct {
	of     *daemon
	execID string
	record store.Service       // while it runs its maker's; then that of whoever waited for done
	opened chan struct{}       // closed when logs are there
	logs   [2]*transcript.File // of the standard output, and of the standard error
	out    *outlet
	errs   *outlet
	ports  []*network.Port // of the host, as long as it runs
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has ended with all that it started, and that is in the database

	mu      sync.Mutex
	stopped bool // it was told to end
	failed  error
}

// errStopped is why a service's program was killed that did not end when it was asked to.
var errStopped = errors.New("it was stopped")

// add takes a name for a service that is to be started.
func (all *services) add(name string, v *service) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if _, runs := all.all[name]; runs {
		return fault.Newf(fault.Exists, "one of this name runs").
			WithHint("%s", fault.Act("service_stop", "pyro workspace service stop %s %s", v.of.order.Workspace.ID, name).Taking("service_name %q", name))
	}
	if len(all.all) >= maxServices {
		return fault.Newf(fault.Exhausted, "%d services run, which is the most that can", maxServices)
	}
	if all.all == nil {
		all.all = map[string]*service{}
	}
	all.all[name] = v
	return nil
}

func (all *services) remove(name string) {
	all.mu.Lock()
	delete(all.all, name)
	all.mu.Unlock()
}

func (all *services) list() (list []*service) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, v := range all.all {
		list = append(list, v)
	}
	return list
}

func (all *services) find(name string) *service {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[name]
}

// startService starts a service and waits until it is ready.
func (d *daemon) startService(ctx context.Context, name string, start *supervisorv1.ExecStart, ready *supervisorv1.Readiness, ports []store.Port) error {
	c, err := d.command(start)
	if err != nil {
		return err
	}
	life, cancel := context.WithCancelCause(context.Background())
	v := &service{of: d, execID: client.NewID(), cancel: cancel, opened: make(chan struct{}), done: make(chan struct{})}
	v.record = store.Service{Name: name, StartedAt: time.Now(), Spec: store.ServiceSpec{
		Argv: d.secrets.texts(start.Argv), Cwd: d.secrets.Text(start.Cwd), Readiness: readinessOf(ready), Secrets: secretNames(start.SecretEnv),
	}}
	if err := d.services.add(name, v); err != nil {
		cancel(nil)
		return err
	}
	err = v.publish(ports)
	if err == nil {
		err = v.open(ctx)
	}
	if err != nil {
		v.unpublish()
		cancel(nil)
		d.services.remove(name)
		close(v.done)
		return err
	}
	started := make(chan struct{})
	c.ID, c.Whole, c.Started = v.execID, true, func(int) { close(started) }
	d.services.running.Go(func() { v.run(life, c) })
	if err := v.await(ctx, c, ready, started); err != nil {
		v.fail(err)
		v.end()
		return v.explain(err)
	}
	return nil
}

// open begins the service's logs and its record.
func (v *service) open(ctx context.Context) (err error) {
	folder := v.of.folder.Service(v.record.Name)
	if err := os.MkdirAll(folder.Path(), 0o700); err != nil {
		return err
	}
	for i, path := range folder.Logs() {
		if v.logs[i], err = transcript.CreateFile(path, remote.ServiceLogBytes); err != nil {
			return errors.Join(err, v.closeLogs())
		}
	}
	v.print(point{}, point{})
	if err = v.of.store.PutService(ctx, v.of.order.Workspace.ID, v.record); err != nil {
		return errors.Join(err, v.closeLogs())
	}
	close(v.opened)
	return nil
}

// print has what the service prints go to its logs. One that can't be written, for want of space, is no reason to end a service.
func (v *service) print(out, errs point) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out, v.errs = v.of.outlet(careless{v.logs[0]}, out), v.of.outlet(careless{v.logs[1]}, errs)
}

func (v *service) closeLogs() (err error) {
	for _, log := range v.logs {
		if log != nil {
			err = errors.Join(err, log.Close())
		}
	}
	return err
}

// run runs the program to its end, with all that it started, and notes that.
func (v *service) run(ctx context.Context, c client.Command) {
	defer close(v.done)
	d := v.of
	exit, err := d.machine.Agent.Exec(ctx, c, nil, v.out, v.errs)
	if d.hasLeft(err) {
		v.unpublish()
		v.closeLogs()
		return
	}
	if err != nil && ctx.Err() == nil {
		exit, err = d.broken(ctx, err)
	}
	v.unpublish() // before its end is told, after which another may want the port
	errors.Join(v.out.Close(), v.errs.Close(), v.closeLogs())
	v.mu.Lock()
	v.record.EndedAt = time.Now()
	v.record.Result = store.ServiceResult{
		ExitCode: exit.Code, Signal: exit.Signal, NotRun: d.secrets.Text(exit.Message), OutOfMemory: exit.OutOfMemory, Stopped: v.stopped,
	}
	switch {
	case errors.Is(context.Cause(ctx), errStopped): // it was killed
		v.record.Result.ExitCode, v.record.Result.Signal = 128+int(syscall.SIGKILL), int(syscall.SIGKILL)
	case context.Cause(ctx) != nil:
		v.record.Result.Broken = context.Cause(ctx).Error()
	case err != nil:
		v.record.Result.Broken = d.secrets.Text(err.Error())
	}
	if v.failed != nil {
		v.record.Result.Failed = d.secrets.Text(v.failed.Error())
	}
	v.save()
	v.mu.Unlock()
	d.services.remove(v.record.Name)
}

// careless is a writer whose errors are nobody's.
type careless struct{ io.Writer }

func (c careless) Write(b []byte) (int, error) {
	c.Writer.Write(b)
	return len(b), nil
}

// await waits until a service is ready. It is an error when it ends before, is not ready in time, or ctx ends.
func (v *service) await(ctx context.Context, c client.Command, ready *supervisorv1.Readiness, started <-chan struct{}) error {
	limit := startPatience
	if ready != nil {
		limit = time.Duration(ready.TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit+lookGrace, notReady(limit, nil))
	defer cancel()
	select {
	case <-started:
	case <-v.done:
		return v.early()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ready == nil {
		return v.isReady()
	}
	looked := make(chan error, 1)
	looking, stop := context.WithCancel(ctx)
	go func() { looked <- v.look(looking, c, ready, limit) }()
	var err error
	select {
	case err = <-looked:
		stop()
	case <-v.done:
		stop()
		<-looked
		return v.early()
	}
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return v.isReady()
}

// look looks until the service is ready.
func (v *service) look(ctx context.Context, c client.Command, r *supervisorv1.Readiness, limit time.Duration) error {
	interval := time.Duration(r.IntervalMs) * time.Millisecond
	if r.Command == "" {
		err := v.of.machine.Agent.AwaitReady(ctx, client.Readiness{File: r.File, TCP: r.Tcp, HTTP: r.Http, Interval: interval}, limit)
		if fault.KindOf(err) == fault.Timeout {
			return notReady(limit, err)
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, notReady(limit, nil))
	defer cancel()
	for {
		probe := client.Command{Argv: []string{"/bin/sh", "-c", r.Command}, Env: c.Env, Cwd: c.Cwd, User: c.User, Timeout: limit}
		exit, err := v.of.machine.Agent.Exec(ctx, probe, nil, nil, nil)
		if err == nil && exit.Code == 0 {
			return nil
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notReady says that a service was not ready in time, and what was seen of it last.
func notReady(limit time.Duration, seen error) error {
	if seen == nil {
		return fault.Newf(fault.Timeout, "it was not ready within %v", limit)
	}
	_, what, _ := strings.Cut(seen.Error(), "not ready: ")
	return fault.Newf(fault.Timeout, "it was not ready within %v: %s", limit, fault.Printable(what))
}

// isReady notes that it is.
func (v *service) isReady() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.record.ReadyAt = time.Now()
	v.save()
	return nil
}

// early says how a service ended that did not become ready.
func (v *service) early() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.record.Result
	switch {
	case r.NotRun != "":
		return fault.Newf(fault.Precondition, "it can't be started: %s", r.NotRun)
	case r.Broken != "":
		return fault.Newf(fault.Unavailable, "%s", r.Broken)
	}
	return fault.Newf(fault.Precondition, "it ended before it was ready, with exit code %d", r.ExitCode)
}

func (v *service) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = err
	if !v.record.EndedAt.IsZero() { // else it is noted with its end
		v.record.Result.Failed = v.of.secrets.Text(err.Error())
		v.save()
	}
}

// explain adds to an error what the service said last.
func (v *service) explain(err error) error {
	folder := v.of.folder.Service(v.record.Name)
	text := ""
	for _, path := range folder.Logs() {
		kept, _, _ := transcript.ReadFile(path)
		lines, _ := transcript.LastLines(kept, lastLines)
		text += string(lines[max(0, len(lines)-lastBytes):])
	}
	if text == "" {
		return fault.Newf(fault.KindOf(err), "%w; it printed nothing", err)
	}
	return fault.Newf(fault.KindOf(err), "%w; the last that it printed:\n%s", err, fault.Printable(text))
}

// end ends a service: it is asked to, with its process group, and killed with all that it started when it does not in time.
func (v *service) end() {
	v.ask(stopGrace)
	<-v.done
}

// ask asks a service to end, and cancels it when it has not after grace.
func (v *service) ask(grace time.Duration) {
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	quick, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if v.of.machine.Agent.Signal(quick, v.execID, syscall.SIGTERM) == nil {
		select {
		case <-v.done:
			return
		case <-quick.Done():
		}
	}
	v.cancel(errStopped)
}

// end asks all services at once to end, and cancels those that have not after endGrace. It does not
// wait for what these have started: that is killed with the machine.
func (all *services) end() {
	all.mu.Lock()
	var ending sync.WaitGroup
	for _, v := range all.all {
		ending.Go(func() { v.ask(endGrace) })
	}
	all.mu.Unlock()
	ending.Wait()
}

// cancel makes all services end that have not, because their machine ends.
func (all *services) cancel() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, v := range all.all {
		v.cancel(errMachine)
	}
}

var errMachine = errors.New(store.MachineEnded)

// save notes what the service is. It holds v.mu, so that of two notes the later one stays. Where the database can't be written, the next start of the machine
// notes what it knows.
func (v *service) save() {
	if err := v.of.store.PutService(context.Background(), v.of.order.Workspace.ID, v.record); err != nil {
		slog.Error("note service", "workspace", v.of.order.Workspace.ID, "service", v.record.Name, "error", err)
	}
}

func readinessOf(r *supervisorv1.Readiness) *store.ServiceReadiness {
	if r == nil {
		return nil
	}
	of := &store.ServiceReadiness{TimeoutMS: int(r.TimeoutMs), IntervalMS: int(r.IntervalMs)}
	switch {
	case r.File != "":
		of.Type, of.Target = "file", r.File
	case r.Tcp != "":
		of.Type, of.Target = "tcp", r.Tcp
	case r.Http != "":
		of.Type, of.Target = "http", r.Http
	default:
		of.Type, of.Target = "command", r.Command
	}
	return of
}

func secretNames(wanted []*supervisorv1.SecretEnv) (names []string) {
	for _, w := range wanted {
		names = append(names, w.Secret)
	}
	return names
}
