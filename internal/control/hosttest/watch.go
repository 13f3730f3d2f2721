package hosttest

import (
	"context"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// Watch implements the client of the host service.
func (h *Host) Watch(ctx context.Context, req *connect.Request[hostv1.WatchRequest]) (*connect.ServerStreamForClient[hostv1.WatchResponse], error) {
	return h.service().Watch(ctx, req)
}

// WatchFolders implements the client of the host service.
func (h *Host) WatchFolders(ctx context.Context, req *connect.Request[hostv1.WatchFoldersRequest]) (*connect.ServerStreamForClient[hostv1.WatchFoldersResponse], error) {
	return h.service().WatchFolders(ctx, req)
}

// ChangeFolder reports a change of a folder to the streams of WatchFolders.
func (h *Host) ChangeFolder(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for paths, changes := range h.folders {
		for i, p := range *paths {
			if p == path {
				changes <- 1 << i
			}
		}
	}
}

// WatchedFolders returns the number of open streams of WatchFolders.
func (h *Host) WatchedFolders() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.folders)
}

// WatchFolders implements the host service.
func (s service) WatchFolders(ctx context.Context, req *connect.Request[hostv1.WatchFoldersRequest], to *connect.ServerStream[hostv1.WatchFoldersResponse]) error {
	h, changes := s.host, make(chan uint64, 100)
	runs := func() (changed chan struct{}, ok bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		b := h.sandboxes[req.Msg.SandboxId]
		if ok = b != nil && b.Status == "running"; ok {
			h.folders[&req.Msg.Paths] = changes
		}
		return h.changed, ok
	}
	defer func() {
		h.mu.Lock()
		delete(h.folders, &req.Msg.Paths)
		h.mu.Unlock()
	}()
	if err := h.do(ctx, "watch folders", func() error { return nil }); err != nil {
		return err
	}
	changed, ok := runs()
	if !ok {
		return failed(connect.CodeFailedPrecondition, "the sandbox does not run")
	}
	for folders := uint64(0); ; {
		if err := to.Send(&hostv1.WatchFoldersResponse{Changed: folders}); err != nil {
			return err
		}
		for folders = 0; folders == 0; {
			select {
			case folders = <-changes:
			case <-changed:
				if changed, ok = runs(); !ok {
					return failed(connect.CodeUnavailable, "the sandbox is being paused")
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// Watchers returns the number of open streams of Watch for all sandboxes.
func (h *Host) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

// BreakStreams breaks all streams of Watch, as a restart of the host agent does.
func (h *Host) BreakStreams() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.broken)
	h.broken = make(chan struct{})
}

// Use sets the time of the last activity of a sandbox.
func (h *Host) Use(id string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sandboxes[id].LastActiveAtUnix = at
	h.notify()
}

// Send sets the number of bytes that the machine of a sandbox has sent to other computers since its
// start. If notify is true, open streams of Watch report the number.
func (h *Host) Send(id string, since, bytes int64, notify bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.states[id]
	s.since, s.bytes = since, bytes
	h.states[id] = s
	if notify {
		h.notify()
	}
}

// Set changes the status of a sandbox without a call of the control plane.
func (h *Host) Set(id, status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sandboxes[id].Status = status
	h.notify()
}

// notify wakes the streams of Watch after a change. The caller holds h.mu.
func (h *Host) notify() {
	for id, b := range h.sandboxes {
		if was := h.states[id]; was.status != b.Status || was.active != b.LastActiveAtUnix {
			was.status, was.active, was.changes = b.Status, b.LastActiveAtUnix, was.changes+1
			h.states[id] = was
		}
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

type state struct {
	status  string
	active  int64
	changes int

	since, bytes int64 // see Send
}

// Watch implements the host service.
func (s service) Watch(ctx context.Context, req *connect.Request[hostv1.WatchRequest], to *connect.ServerStream[hostv1.WatchResponse]) error {
	h := s.host
	if err := h.do(ctx, "watch", func() error { return nil }); err != nil {
		return err
	}
	only := req.Msg.SandboxId
	h.mu.Lock()
	broken := h.broken
	if only == "" {
		h.streams++
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		if only == "" {
			h.streams--
		}
		h.mu.Unlock()
	}()
	sent := map[string]state{}
	for synced := false; ; synced = true {
		h.mu.Lock()
		changed, now := h.changed, map[string]state{}
		for id := range h.sandboxes {
			if only == "" || only == id {
				now[id] = h.states[id]
			}
		}
		h.mu.Unlock()
		for id, v := range now {
			if sent[id] == v {
				continue
			}
			if err := to.Send(&hostv1.WatchResponse{SandboxId: id, Status: v.status, LastActiveAtUnix: v.active, SentBytes: v.bytes, SentSinceUnixNano: v.since}); err != nil {
				return err
			}
		}
		for id := range sent {
			if _, ok := now[id]; ok {
				continue
			}
			if err := to.Send(&hostv1.WatchResponse{SandboxId: id}); err != nil {
				return err
			}
		}
		sent = now
		if !synced {
			if err := to.Send(&hostv1.WatchResponse{Synced: true}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-broken:
			return failed(connect.CodeUnavailable, "the host agent is shutting down")
		case <-ctx.Done():
			return nil
		}
	}
}
