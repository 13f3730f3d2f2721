package hostagent

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	hostpb "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// Watch sends the states of all sandboxes, and then each change. It ends when the client
// disconnects or the host agent shuts down.
func (h hostService) Watch(ctx context.Context, req *connect.Request[hostpb.WatchRequest], to *connect.ServerStream[hostpb.WatchResponse]) error {
	const op = "watch sandboxes"
	a := h.agent
	ctx, end := a.streamContext(ctx)
	defer end(nil)
	w := a.watchers.add(req.Msg.SandboxId)
	defer a.watchers.drop(w)
	if s, err := a.find(w.only); err == nil {
		s.measureSent(ctx)
	}
	for _, s := range a.all() { // w already receives the changes during this loop
		w.change(s.id())
	}
	for synced := false; ; {
		id, known, ok := w.next()
		switch {
		case ok:
			m, err := a.stateFor(id)
			if err != nil {
				return fault.Wrap(err, op, id)
			}
			if m.Status == "" {
				w.forget(id)
				if !known {
					continue
				}
			}
			if err := to.Send(m); err != nil {
				return err
			}
		case !synced:
			synced = true
			if err := to.Send(&hostpb.WatchResponse{Synced: true}); err != nil {
				return err
			}
		default:
			select {
			case <-w.wake:
			case <-ctx.Done():
				return fault.Wrap(context.Cause(ctx), op, "")
			}
		}
	}
}

// stateFor returns the message with the current state of a sandbox. If the sandbox does not exist,
// the status is empty.
func (a *Agent) stateFor(id string) (*hostpb.WatchResponse, error) {
	m := &hostpb.WatchResponse{SandboxId: id}
	s, err := a.find(id)
	if err != nil {
		return m, nil
	}
	m.Status, err = a.status(s)
	m.LastActiveAtUnix = s.record().LastActive.Unix()
	s.mu.Lock()
	m.SentBytes, m.SentSinceUnixNano = s.sent.bytes, s.sent.since
	s.mu.Unlock()
	return m, err
}

// awaitEnd reports to the watchers that a sandbox runs, and later that its machine has ended. It
// waits for the end in the background. It does nothing if it waits already.
func (a *Agent) awaitEnd(s *sandbox) {
	id, ok := s.await()
	if !ok || a.ctx.Err() != nil {
		return
	}
	s.watchers.changed(s.id())
	a.working.Go(func() {
		for {
			err := a.options.Machines.AwaitEnd(a.ctx, id)
			s.mu.Lock()
			s.awaited = false
			s.mu.Unlock()
			if a.ctx.Err() != nil {
				return
			}
			if err != nil {
				a.options.Log.Error("wait for the end of a machine", "sandbox", s.id(), "error", err)
				return
			}
			s.watchers.changed(s.id())
			// The machine may have been resumed before awaited was reset. Then the call of awaitEnd
			// for it did nothing.
			if !a.options.Machines.Running(id) {
				return
			}
			if id, ok = s.await(); !ok {
				return
			}
			s.watchers.changed(s.id()) // they may have read the state before the resume
		}
	})
}

// await sets awaited, and returns the ID of the machine. ok is false if awaited was set already, or
// if the sandbox has no machine.
func (s *sandbox) await() (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited || s.gone || s.rec.WorkspaceID == "" {
		return "", false
	}
	s.awaited = true
	return s.rec.WorkspaceID, true
}

// reportUseAfter is the delay until watchers get the time of an activity, or the number of sent
// bytes. All activities during the delay share one message. reportSoon is the delay if a client
// watches only this sandbox, because a person probably looks at it.
const (
	reportUseAfter = 10 * time.Second
	reportSoon     = 2 * time.Second
)

// reportUse reports an activity to the watchers later. The caller must hold s.mu.
func (s *sandbox) reportUse() {
	any, one := s.watchers.watch(s.name)
	switch {
	case !any:
	case one:
		s.reportUseIn(reportSoon)
	default:
		s.reportUseIn(reportUseAfter)
	}
}

// reportUseIn reports an activity after d. If a report is pending, it comes after d at the latest.
// The caller must hold s.mu.
func (s *sandbox) reportUseIn(d time.Duration) {
	at := time.Now().Add(d)
	if s.useReport != nil {
		if at.Before(s.useReportAt) && s.useReport.Stop() {
			s.useReport.Reset(d)
			s.useReportAt = at
		}
		return
	}
	s.useReportAt = at
	s.useReport = time.AfterFunc(d, func() {
		s.mu.Lock()
		s.useReport = nil
		if any, _ := s.watchers.watch(s.name); any && s.busy > 0 {
			s.reportUseIn(reportUseAfter)
		}
		s.mu.Unlock()
		s.watchers.changed(s.id())
	})
}

// watchers are the open streams of Watch. The zero value is ready to use.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

// watcher is an open stream of Watch. It has a set of IDs instead of a queue of states. So a slow
// client needs no more memory than a fast one, and gets the latest states.
type watcher struct {
	only string        // the only sandbox to watch; empty: all
	wake chan struct{} // contains a token after a change

	mu    sync.Mutex
	dirty map[string]struct{} // sandboxes to send; all of them exist or are in known
	known map[string]struct{} // sandboxes that the client knows
}

func (all *watchers) add(only string) *watcher {
	w := &watcher{only: only, wake: make(chan struct{}, 1), dirty: map[string]struct{}{}, known: map[string]struct{}{}}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[*watcher]struct{}{}
	}
	all.all[w] = struct{}{}
	return w
}

func (all *watchers) drop(w *watcher) {
	all.mu.Lock()
	delete(all.all, w)
	all.mu.Unlock()
}

// watch reports whether a client watches a sandbox, and whether a client watches only this sandbox.
func (all *watchers) watch(id string) (any, only bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for w := range all.all {
		any, only = any || w.only == "" || w.only == id, only || w.only == id
	}
	return any, only
}

// changed marks a sandbox for all watchers.
func (all *watchers) changed(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for w := range all.all {
		w.change(id)
	}
}

// removed marks a sandbox that no longer exists for the watchers that know it.
func (all *watchers) removed(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for w := range all.all {
		w.mu.Lock()
		_, known := w.known[id]
		if !known {
			delete(w.dirty, id)
		}
		w.mu.Unlock()
		if known {
			w.change(id)
		}
	}
}

// change marks a sandbox.
func (w *watcher) change(id string) {
	if w.only != "" && w.only != id {
		return
	}
	w.mu.Lock()
	w.dirty[id] = struct{}{}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next takes a marked sandbox. The caller must then read and send its state, even if the same state
// was sent before. The client may have read another state in between. known reports whether the
// client knows the sandbox. From now on, it counts as known.
func (w *watcher) next() (id string, known, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id = range w.dirty {
		delete(w.dirty, id)
		_, known = w.known[id]
		w.known[id] = struct{}{}
		return id, known, true
	}
	return "", false, false
}

// forget records that a client no longer knows a sandbox.
func (w *watcher) forget(id string) {
	w.mu.Lock()
	delete(w.known, id)
	w.mu.Unlock()
}
