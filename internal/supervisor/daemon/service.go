package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const (
	maxServices = 64              // services that run at the same time.
	stopGrace   = 5 * time.Second // time between SIGTERM and SIGKILL when a service is stopped.
	endGrace    = 2 * time.Second // time between SIGTERM and SIGKILL when the machine is stopped
)

// service is a job that has a name and runs in the background. Its restart policy can start the
// program several times.
type service struct {
	job
	opened chan struct{}       // closed when the logs are open
	logs   [2]*program.LogFile // standard output and standard error
	start  *programv1.Command  // the command, for restarts after a pause; nil: there is no restart policy

	// Guarded by job.mu.
	record  store.Service   // the name in the record never changes
	ports   []*network.Port // published while it runs
	closed  bool            // whether no more ports can be published.
	stopped bool            // whether the service was asked to end.
	unready bool            // whether the program ended before it was ready. Then there is no restart.
	failed  error
}

// errStopped is the cause of the cancellation of a service that did not end when it was asked to.
var errStopped = errors.New("it was stopped")

// admit returns an error if a service can't be started now. All services in the list run or are
// being started.
func (v *service) admit(all []*service) ([]*service, error) {
	for _, one := range all {
		if one.record.Name == v.record.Name {
			return nil, fault.Newf(fault.Exists, "a service with this name is running").
				WithHint("%s", fault.Act("service_stop", "pyro workspace service stop %s %s", v.daemon.config.Workspace.ID, v.record.Name).Taking("service_name %q", v.record.Name))
		}
	}
	if len(all) >= maxServices {
		return nil, fault.Newf(fault.Exhausted, "%d services are running, which is the maximum", maxServices)
	}
	return all, nil
}

func (d *daemon) findService(name string) (*service, bool) {
	return d.services.find(func(v *service) bool { return v.record.Name == name })
}

// newService returns a service that has not been started.
func (d *daemon) newService(id string, record store.Service) *service {
	v := &service{opened: make(chan struct{}), record: record}
	v.init(d, context.Background(), id)
	return v
}

// startService starts a service and waits until it is ready.
func (d *daemon) startService(ctx context.Context, m *supervisorv1.StartServiceRequest, ports []store.Port) error {
	c, err := d.command(m.Start)
	if err != nil {
		return err
	}
	v := d.newService(program.NewID(), store.Service{Name: m.Name, StartedAt: time.Now(), Spec: store.ServiceSpec{
		Argv: d.secrets.texts(m.Start.Argv), Cwd: d.secrets.Text(m.Start.Cwd), Readiness: readinessOf(m.Readiness), Secrets: secretNames(m.Start.SecretEnv),
		Restart: restartOf(m.Restart),
	}})
	if v.record.Spec.Restart != "" {
		v.start = m.Start
	}
	if err := d.services.add(v, v.admit); err != nil {
		v.cancel(nil)
		return err
	}
	stale, err := v.stale(ctx, m.Readiness)
	if err == nil {
		err = v.publish(ports)
	}
	if err == nil {
		err = v.open(ctx)
	}
	if err != nil {
		v.unpublish()
		v.cancel(nil)
		d.services.remove(v)
		close(v.done)
		return err
	}
	d.background.Go(func() { v.run(c, nil) })
	if err := v.await(ctx, c, m.Readiness, stale); err != nil {
		v.fail(err)
		v.end()
		return v.explain(err)
	}
	return nil
}

// open creates the service's logs and its record.
func (v *service) open(ctx context.Context) (err error) {
	folder := v.daemon.folder.Service(v.record.Name)
	if err := os.MkdirAll(folder.Path(), 0o700); err != nil {
		return err
	}
	for i, path := range folder.Logs() {
		if v.logs[i], err = program.CreateLogFile(path, remote.ServiceLogBytes); err != nil {
			return errors.Join(err, v.closeLogs())
		}
	}
	v.print(savedStreams{Stderr: new(position)})
	if err = v.daemon.store.PutService(ctx, v.daemon.config.Workspace.ID, v.record); err != nil {
		return errors.Join(err, v.closeLogs())
	}
	close(v.opened)
	return nil
}

// print connects the program's outputs with the logs. If a log can't be written, for example
// because the disk is full, the service continues.
func (v *service) print(from savedStreams) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setOutputs(from)
}

// setOutputs sets the program's outputs. The caller holds v.mu.
func (v *service) setOutputs(from savedStreams) {
	v.stdout = v.daemon.newWriter(bestEffort{v.logs[0]}, from.Stdout)
	v.stderr = v.daemon.newWriter(bestEffort{v.logs[1]}, *from.Stderr)
}

// bestEffort is a writer that ignores errors.
type bestEffort struct{ io.Writer }

func (w bestEffort) Write(b []byte) (int, error) {
	w.Writer.Write(b)
	return len(b), nil
}

func (v *service) closeLogs() (err error) {
	for _, log := range v.logs {
		if log != nil {
			err = errors.Join(err, log.Close())
		}
	}
	return err
}

// run runs the program until it ends and is not started again. It kills the remaining descendants
// of each run, and records the end.
func (v *service) run(c program.Command, from *program.Position) {
	c.KillRest = true
	v.complete(func() (program.Exit, error) { return v.runs(c, from) }, func() {
		v.unpublish() // before the end is recorded, because afterwards another service can use the port
		v.closeLogs()
		if errors.Is(v.err, errSuspended) {
			return
		}
		v.mu.Lock()
		v.record.EndedAt, v.record.Result = v.ended, v.result()
		v.save()
		v.mu.Unlock()
		v.daemon.services.remove(v)
	})
}

// result returns how the service ended. The caller holds v.mu.
func (v *service) result() store.ServiceResult {
	r := store.ServiceResult{Exit: v.exitRedacted(), Stopped: v.stopped, Restarts: v.record.Result.Restarts}
	if v.start != nil && v.err == nil && !r.Restarts.Waits {
		r.Restarts.Exit, r.Restarts.At = r.Exit, v.ended
	}
	r.Restarts.Waits = false
	switch {
	case errors.Is(v.err, errStopped): // it was killed
		r.Exit = program.Killed(syscall.SIGKILL)
	case v.err != nil:
		r.Broken = v.daemon.secrets.Text(v.err.Error())
	}
	if v.failed != nil {
		r.Failed = v.daemon.secrets.Text(v.failed.Error())
	}
	return r
}

// end ends a service. It sends SIGTERM to the process group. If the service has not ended in time,
// it kills the service with all its descendants.
func (v *service) end() {
	v.askToEnd(stopGrace)
	<-v.done
}

// askToEnd sends SIGTERM. If the service has not ended after grace, it cancels the service.
func (v *service) askToEnd(grace time.Duration) {
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	v.job.askToEnd(ctx, syscall.SIGTERM)
	if !v.hasEnded() {
		v.cancel(errStopped)
	}
}

// endServices asks all services to end, at the same time. It cancels services that have not ended
// after endGrace. It does not wait for their descendants, because these are killed with the
// machine.
func (d *daemon) endServices() {
	var ending sync.WaitGroup
	for _, v := range d.services.list() {
		ending.Go(func() { v.askToEnd(endGrace) })
	}
	ending.Wait()
}

// save writes the record to the database. The caller holds v.mu, so that an older record can't
// overwrite a newer one. If the database can't be written, the next start of the machine corrects
// the record.
func (v *service) save() {
	if err := v.daemon.store.PutService(context.Background(), v.daemon.config.Workspace.ID, v.record); err != nil {
		slog.Error("record service", "workspace", v.daemon.config.Workspace.ID, "service", v.record.Name, "error", err)
	}
}
