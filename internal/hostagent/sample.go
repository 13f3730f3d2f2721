package hostagent

import (
	"context"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// samplePatience bounds a question to a sandbox: one that does not answer is asked again later, and holds up no other.
const samplePatience = 5 * time.Second

// A machine is asked what it takes if it has used askAbove of a processor since the last sample: with
// less its memory and disks can't have changed much. If it has used anyWork it is asked within
// askWithin. Under emulation an idle machine uses up to 4 ms between two samples.
const (
	askAbove  = 5 * time.Millisecond
	anyWork   = time.Millisecond
	askWithin = 30 * time.Second
)

// sampleAll takes a sample of each sandbox.
func (a *Agent) sampleAll() {
	for _, s := range a.all() {
		if w := s.watcher.Load(); w != nil {
			w.sample()
		}
	}
}

// watch samples what a sandbox takes until it is destroyed or the host agent ends.
func (a *Agent) watch(s *sandbox) {
	w := &watcher{agent: a, of: s}
	w.ctx, w.cancel = context.WithCancel(a.ctx)
	s.watcher.Store(w)
}

// unwatch ends that. It waits for a question that has no answer yet.
func (s *sandbox) unwatch() {
	if w := s.watcher.Swap(nil); w != nil {
		w.cancel()
		w.busy.Lock()
		defer w.busy.Unlock()
		w.drop()
	}
}

// watcher looks at one sandbox. It reads the clocks of the machine's processes, which wakes nobody up,
// and asks the machine if these say that it did something, over one connection for as long as that holds.
type watcher struct {
	agent  *Agent
	of     *sandbox
	ctx    context.Context
	cancel context.CancelFunc

	busy    sync.Mutex // held while the rest is used
	machine Machine    // nil: not connected
	at      time.Time  // of the last sample; zero: there is none yet
	last    remote.Usage
	clock   time.Duration // of the machine's processes, at the last sample
	asked   time.Time
	since   time.Duration // what the machine and its supervisor have used by then
}

func (w *watcher) drop() {
	if w.machine != nil {
		w.machine.Close()
		w.machine = nil
	}
}

// sample takes a sample if the sandbox runs. It does not wait for an answer of the sandbox: that becomes
// a sample when it comes.
func (w *watcher) sample() {
	if !w.busy.TryLock() {
		return // it was asked, and has not answered yet
	}
	if w.ctx.Err() == nil && w.ask() {
		w.agent.working.Go(func() {
			defer w.busy.Unlock()
			w.question()
		})
		return
	}
	w.busy.Unlock()
}

// ask takes a sample from outside, and reports whether the machine has to be asked instead.
func (w *watcher) ask() bool {
	r := w.of.record()
	if !w.agent.options.Machines.Running(r.WorkspaceID) {
		w.drop()
		return false
	}
	if w.machine == nil {
		return true
	}
	machine, all, ok := clocks(w.last)
	now := w.agent.options.clock()
	used := machine - w.clock
	if !ok || used >= askAbove || all-w.since >= anyWork && now.Sub(w.asked) >= askWithin {
		return true
	}
	u := w.last
	u.CPU += used
	w.add(r, now, u)
	w.clock = machine
	return false
}

// question asks the machine. The first answer after it was connected to only begins the time of the next sample.
func (w *watcher) question() {
	r := w.of.record()
	ctx, cancel := context.WithTimeout(w.ctx, samplePatience)
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
	w.add(r, w.agent.options.clock(), u)
	w.asked = w.at
	w.clock, w.since, _ = clocks(u) // after the answer: what that took is no reason to ask again
}

// add adds a sample to the metrics.
func (w *watcher) add(r record, now time.Time, u remote.Usage) {
	if !w.at.IsZero() && w.of.metrics.add(now, pointOf(u, u.CPU-w.last.CPU, now.Sub(w.at), r.VCPUs)) {
		if err := w.of.metrics.save(w.agent.metricsFile(r.SandboxID)); err != nil && w.ctx.Err() == nil {
			w.agent.options.Log.Error("keep metrics", "sandbox", r.SandboxID, "error", err)
		}
	}
	w.at, w.last = now, u
}

// clocks returns the processor time that the processes of a machine have used, and the same with its
// supervisor's. ok is false if they are not known, or one of them has ended.
func clocks(u remote.Usage) (machine, all time.Duration, ok bool) {
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

// pointOf is what a machine took in a time, of which its processors worked for a part.
func pointOf(u remote.Usage, worked, of time.Duration, vcpus int) point {
	p := point{MemBytes: u.MemBytes, DiskBytes: u.DiskBytes}
	if of > 0 && vcpus > 0 {
		p.CPU = min(max(100*float64(worked)/float64(of)/float64(vcpus), 0), 100)
	}
	return p
}
