package hostagent

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// queryTimeout is the maximum duration of a query to a machine. After a timeout the machine is
// queried again later.
const queryTimeout = 5 * time.Second

// A machine is queried if its processes have used queryAbove of processor time since the last
// sample. If they have used less, its memory and disk use can't have changed much. A machine is
// also queried queryWithin after the last query, if it and its supervisor have used minWork since
// then. Under emulation an idle machine uses up to 4 ms between two samples.
const (
	queryAbove  = 5 * time.Millisecond
	minWork     = time.Millisecond
	queryWithin = 30 * time.Second
)

// sampleAll takes a sample of each sandbox.
func (a *Agent) sampleAll() {
	for _, s := range a.all() {
		if w := s.sampler.Load(); w != nil {
			w.sample()
		}
	}
}

// startSampling samples a sandbox until stopSampling is called or the host agent stops.
func (a *Agent) startSampling(s *sandbox) { s.sampler.Store(a.newSampler(s)) }

// stopSampling stops the sampling. It waits for a query in progress.
func (s *sandbox) stopSampling() {
	if w := s.sampler.Swap(nil); w != nil {
		w.stop()
	}
}

// sampler samples one sandbox. It reads the processor times of the machine's processes, which does
// not wake the machine. It queries the machine only if these times show activity. It stays
// connected while the machine runs.
type sampler struct {
	agent  *Agent
	of     *sandbox
	ctx    context.Context
	cancel context.CancelFunc

	busy        chan struct{} // protects the fields below; contains a token while it is locked
	machine     Machine       // nil if not connected
	at          time.Time     // time of the last sample; zero before the first
	last        workspace.Usage
	used        time.Duration // processor time of the machine's processes at the last sample
	queried     time.Time
	usedAtQuery time.Duration // processor time of the machine and its supervisor at the last query
}

func (a *Agent) newSampler(s *sandbox) *sampler {
	w := &sampler{agent: a, of: s, busy: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(a.ctx)
	return w
}

func (w *sampler) stop() {
	w.cancel()
	w.busy <- struct{}{}
	defer w.release()
	w.drop()
}

func (w *sampler) drop() {
	if w.machine != nil {
		w.machine.Close()
		w.machine = nil
	}
}

// sample takes a sample if the sandbox runs. If a query is needed, sample does not wait for it: the
// sample is added when the response arrives.
func (w *sampler) sample() {
	select {
	case w.busy <- struct{}{}:
	default:
		return // a query is in progress
	}
	if w.ctx.Err() == nil && w.needsQuery() {
		w.agent.working.Go(func() {
			defer w.release()
			ctx, cancel := context.WithTimeout(w.ctx, queryTimeout)
			defer cancel()
			w.query(ctx)
		})
		return
	}
	w.release()
}

func (w *sampler) release() { <-w.busy }

// needsQuery reports whether the machine must be queried. If not, it adds a sample that it computes
// from the processor times.
func (w *sampler) needsQuery() bool {
	r := w.of.record()
	if !w.agent.options.Machines.Running(r.WorkspaceID) {
		w.drop()
		return false
	}
	w.agent.awaitEnd(w.of) // if another process has resumed the machine, this is the first place that finds it running
	if w.machine == nil {
		return true
	}
	machine, all, ok := processorTimes(w.last)
	now := w.agent.options.clock()
	used := machine - w.used
	if !ok || used >= queryAbove || all-w.usedAtQuery >= minWork && now.Sub(w.queried) >= queryWithin {
		return true
	}
	u := w.last
	u.CPU += used
	w.add(r, now, u)
	w.used = machine
	return false
}

// refresh queries the machine if it runs. It first waits for a query in progress, whose answer can
// be older than this call.
func (w *sampler) refresh(ctx context.Context) {
	select {
	case w.busy <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer w.release()
	if w.ctx.Err() == nil && w.agent.options.Machines.Running(w.of.record().WorkspaceID) {
		w.query(ctx)
	}
}

// query queries the machine. The first response on a connection adds no sample: it only sets the
// start of the next interval.
func (w *sampler) query(ctx context.Context) {
	r := w.of.record()
	if w.machine == nil {
		m, err := w.agent.options.Machines.Connect(ctx, r.WorkspaceID)
		if err != nil {
			return
		}
		w.machine, w.at = m, time.Time{}
	}
	u, err := w.machine.Usage(ctx)
	if err != nil {
		w.drop()
		return
	}
	w.of.setSent(u)
	w.add(r, w.agent.options.clock(), u)
	w.queried = w.at
	w.used, w.usedAtQuery, _ = processorTimes(u) // measured after the response, so that the query itself does not count as activity
}

// add adds a sample to the metrics.
func (w *sampler) add(r record, now time.Time, u workspace.Usage) {
	if !w.at.IsZero() && w.of.metrics.add(now, pointOf(u, u.CPU-w.last.CPU, now.Sub(w.at), r.VCPUs)) {
		if err := w.of.metrics.save(w.agent.metricsFile(r.SandboxID)); err != nil && w.ctx.Err() == nil {
			w.agent.options.Log.Error("save metrics", "sandbox", r.SandboxID, "error", err)
		}
	}
	w.at, w.last = now, u
}

// processorTimes returns the processor time of a machine's processes, without and with the
// supervisor. ok is false if the processes are unknown or one of them has ended.
func processorTimes(u workspace.Usage) (machine, all time.Duration, ok bool) {
	for _, pid := range u.Processes {
		used, there := remote.ProcessorTime(pid)
		if !there {
			return 0, 0, false
		}
		machine += used
	}
	supervisor, there := remote.ProcessorTime(u.Supervisor)
	return machine, machine + supervisor, there && len(u.Processes) > 0
}

// pointOf returns the point for an interval. Its parameters include the length of the interval and
// the processor time that the machine used in the interval.
func pointOf(u workspace.Usage, cpuTime, of time.Duration, vcpus int) point {
	p := point{MemBytes: u.MemBytes, DiskBytes: u.DiskBytes}
	if of > 0 && vcpus > 0 {
		p.CPU = min(max(100*float64(cpuTime)/float64(of)/float64(vcpus), 0), 100)
	}
	return p
}
