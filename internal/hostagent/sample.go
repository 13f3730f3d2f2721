package hostagent

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// samplePatience bounds one look at a sandbox: one that does not answer is looked at again later, and holds up no other.
const samplePatience = 5 * time.Second

// watch samples what a sandbox takes until it is destroyed or the host agent ends.
func (a *Agent) watch(s *sandbox) {
	ctx, cancel := context.WithCancel(a.ctx)
	s.over = cancel
	a.working.Add(1)
	s.watched.Go(func() {
		defer a.working.Done()
		defer cancel()
		w := watcher{agent: a, of: s}
		defer w.drop()
		every(ctx, sampleEvery, func() { w.sample(ctx) })
	})
}

// watcher looks at one sandbox, over one connection for as long as that holds.
type watcher struct {
	agent   *Agent
	of      *sandbox
	machine Machine // nil: not connected
	at      time.Time
	cpu     time.Duration
}

func (w *watcher) drop() {
	if w.machine != nil {
		w.machine.Close()
		w.machine = nil
	}
}

// sample takes a sample where the sandbox runs and answers. The first one after it was connected to only begins the time of the next.
func (w *watcher) sample(ctx context.Context) {
	r := w.of.record()
	if !w.agent.options.Machines.Running(r.WorkspaceID) {
		w.drop()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
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
	now := w.agent.options.clock()
	if !w.at.IsZero() && w.of.metrics.add(now, pointOf(u, u.CPU-w.cpu, now.Sub(w.at), r.VCPUs)) {
		if err := w.of.metrics.save(w.agent.metricsFile(r.SandboxID)); err != nil && ctx.Err() == nil {
			w.agent.options.Log.Error("keep metrics", "sandbox", r.SandboxID, "error", err)
		}
	}
	w.at, w.cpu = now, u.CPU
}

// pointOf is what a machine took in a time, of which its processors worked for a part.
func pointOf(u remote.Usage, worked, of time.Duration, vcpus int) point {
	p := point{MemBytes: u.MemBytes, DiskBytes: u.DiskBytes}
	if of > 0 && vcpus > 0 {
		p.CPU = min(max(100*float64(worked)/float64(of)/float64(vcpus), 0), 100)
	}
	return p
}
