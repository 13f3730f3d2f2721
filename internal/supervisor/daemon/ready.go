package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

const (
	lastLines  = 20               // lines of output in the error of a failed start.
	lastBytes  = 4 << 10          // the largest number of bytes in these lines.
	probeGrace = 30 * time.Second // time for the agent to answer after the time limit
)

// stale returns the stamp that the file of a readiness check has before the start. It is empty if
// there is no such file.
func (v *service) stale(ctx context.Context, r *supervisorv1.Readiness) (string, error) {
	if r == nil || r.File == "" {
		return "", nil
	}
	stamp, err := v.daemon.machine.Agent.AwaitReady(ctx, client.Readiness{File: r.File}, time.Millisecond)
	if fault.KindOf(err) == fault.Timeout {
		return "", nil
	}
	return stamp, err
}

// await waits until a service is ready. It returns an error if the service ends before it is ready,
// if it is not ready in time, or if ctx is cancelled. stale is the stamp that the file had before
// the service was started.
func (v *service) await(ctx context.Context, c program.Command, ready *supervisorv1.Readiness, stale string) error {
	limit := startPatience
	if ready != nil {
		limit = time.Duration(ready.TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit+probeGrace, notReady(limit, nil))
	defer cancel()
	select {
	case <-v.started:
	case <-v.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !v.hasStarted() {
		return v.endedEarly("")
	}
	if ready == nil {
		v.isReady()
		return nil
	}
	probed := make(chan error, 1)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { probed <- v.probe(probing, c, ready, limit, stale) }()
	var err error
	ended := false
	select {
	case err = <-probed:
		ended = fault.KindOf(err) == fault.Precondition
	case <-v.done: // the agent also sees the end, and knows the result of its last check
		if ready.Command == "" {
			time.AfterFunc(probeGrace, stop)
		} else {
			stop()
		}
		err, ended = <-probed, true
	}
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if ended || err == nil && !v.isReady() {
		select {
		case <-v.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		_, seen, _ := strings.Cut(fmt.Sprint(err), execEnded)
		return v.endedEarly(seen)
	}
	return err
}

// execEnded is the prefix of the agent's error if the service has ended. The result of the last
// failed check follows.
const execEnded = "the exec has ended: "

// probe repeats the readiness check until the service is ready. Precondition: the service has
// ended.
func (v *service) probe(ctx context.Context, c program.Command, r *supervisorv1.Readiness, limit time.Duration, stale string) error {
	interval := time.Duration(r.IntervalMs) * time.Millisecond
	ready := client.Readiness{File: r.File, TCP: r.Tcp, HTTP: r.Http, Interval: interval, Exec: v.programID(), Stale: stale, Names: v.others()}
	if r.Command == "" {
		_, err := v.daemon.machine.Agent.AwaitReady(ctx, ready, limit)
		if fault.KindOf(err) == fault.Timeout {
			return notReady(limit, err)
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, notReady(limit, nil))
	defer cancel()
	for {
		probe := program.Command{Argv: []string{"/bin/sh", "-c", r.Command}, Env: c.Env, Cwd: c.Cwd, User: c.User, Timeout: limit}
		exit, err := v.daemon.machine.Agent.Exec(ctx, probe, program.Attach{})
		if err == nil && exit.Code == 0 {
			_, err = v.daemon.machine.Agent.AwaitReady(ctx, ready, limit) // checks that the service still runs
			return err
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

// notReady returns the error for a service that was not ready in time. seen is the result of the
// last check.
func notReady(limit time.Duration, seen error) error {
	if seen == nil {
		return fault.Newf(fault.Timeout, "it was not ready within %v", limit)
	}
	_, what, _ := strings.Cut(seen.Error(), "not ready: ")
	return fault.Newf(fault.Timeout, "it was not ready within %v: %s", limit, fault.Printable(what))
}

// others returns the names of the other services by the IDs of their programs.
func (v *service) others() map[string]string {
	names := map[string]string{}
	for _, other := range v.daemon.services.list() {
		if other != v {
			names[other.programID()] = "service " + strconv.Quote(other.record.Name)
		}
	}
	return names
}

// isReady records that the service is ready. It returns false if the service has ended before that.
func (v *service) isReady() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unready {
		return false
	}
	v.record.ReadyAt = time.Now()
	v.save()
	return true
}

// endedEarly returns the error for a service that ended before it was ready. seen is the result of
// the last check; it can be empty.
func (v *service) endedEarly(seen string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.record.Result
	switch {
	case fault.KindOf(v.err) == fault.Invalid:
		return v.err
	case r.NotRun != "":
		return fault.Newf(fault.Precondition, "it can't be started: %s", r.NotRun)
	case r.Broken != "":
		return fault.Newf(fault.Unavailable, "%s", r.Broken)
	}
	if seen != "" {
		seen = "; the last check: " + fault.Printable(seen)
	}
	return fault.Newf(fault.Precondition, "it ended before it was ready, with exit code %d%s", r.Code, seen)
}

// fail records why the service did not become ready.
func (v *service) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = err
	if !v.record.EndedAt.IsZero() { // otherwise run records the reason together with the end
		v.record.Result.Failed = v.daemon.secrets.Text(err.Error())
		v.save()
	}
}

// explain adds the last output of the service to err, unless the program was refused.
func (v *service) explain(err error) error {
	if fault.KindOf(err) == fault.Invalid {
		return err
	}
	folder := v.daemon.folder.Service(v.record.Name)
	text := ""
	for _, path := range folder.Logs() {
		kept, _, _ := program.ReadLogFile(path)
		lines, _ := program.LastLines(kept, lastLines)
		text += string(lines[max(0, len(lines)-lastBytes):])
	}
	if text == "" {
		return fault.Newf(fault.KindOf(err), "%w; it printed nothing", err)
	}
	return fault.Newf(fault.KindOf(err), "%w; its last output:\n%s", err, fault.Printable(text))
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

func secretNames(wanted []*programv1.SecretEnv) (names []string) {
	for _, w := range wanted {
		names = append(names, w.Secret)
	}
	return names
}
