package agent

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// quiescePatience limits how long Quiesce takes. maxFreeze is the maximum time limit of Freeze.
const (
	quiescePatience = 20 * time.Second
	maxFreeze       = time.Minute
)

// Mount mounts the root and the volume.
func (s *Server) Mount(_ context.Context, req *connect.Request[agentv1.MountRequest]) (*connect.Response[agentv1.MountResponse], error) {
	r, err := s.env.Mount(req.Msg.Root, req.Msg.Volume)
	if err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.MountResponse{Completed: uint32(r.Completed), Undone: uint32(r.Undone)}), nil
}

// storageError returns an RPC error whose code fits an error of a file system.
func storageError(err error) error {
	switch {
	case errors.Is(err, volume.ErrDamaged):
		return connect.NewError(connect.CodeDataLoss, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return pathError(err)
}

// Quiesce kills all processes and flushes all file systems, so that the machine can be stopped. If
// the caller cancels the call, Quiesce still continues.
func (s *Server) Quiesce(ctx context.Context, _ *connect.Request[agentv1.QuiesceRequest]) (*connect.Response[agentv1.QuiesceResponse], error) {
	_, err := s.thaw()
	if err = errors.Join(err, s.releaseProcesses()); err != nil {
		return nil, storageError(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quiescePatience)
	defer cancel()
	if err := s.env.Quiesce(ctx); err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.QuiesceResponse{}), nil
}

// freeze is the state of frozen file systems.
type freeze struct {
	release func()        // allows changes to the volume again
	over    chan struct{} // closed by thawLocked
}

// Freeze freezes file systems until Thaw, until the time limit, or until the session ends.
func (s *Server) Freeze(ctx context.Context, req *connect.Request[agentv1.FreezeRequest]) (*connect.Response[agentv1.FreezeResponse], error) {
	limit := time.Duration(req.Msg.LimitMs) * time.Millisecond
	if limit <= 0 || limit > maxFreeze {
		return nil, invalid("the limit must be 1 to 60000 ms")
	}
	s.freezing.Lock()
	defer s.freezing.Unlock()
	if _, err := s.thawLocked(); err != nil {
		return nil, storageError(err)
	}
	if req.Msg.Processes {
		if err := s.hold(limit); err != nil {
			return nil, storageError(errors.Join(err, s.releaseLocked()))
		}
	}
	answer, err := s.freeze(ctx, req.Msg, limit)
	if err != nil && req.Msg.Processes {
		err = errors.Join(err, s.releaseLocked())
	}
	return answer, err
}

// freeze freezes file systems. The caller must have locked s.freezing.
func (s *Server) freeze(ctx context.Context, m *agentv1.FreezeRequest, limit time.Duration) (*connect.Response[agentv1.FreezeResponse], error) {
	release := func() {}
	if m.Volume {
		v, err := s.env.Volume()
		if err != nil {
			return nil, storageError(err)
		}
		if release, err = v.LockChanges(ctx); err != nil {
			return nil, err
		}
	}
	frozen, err := s.env.Freeze(m.Root, m.Volume)
	if err != nil || !frozen {
		release()
		if err != nil {
			return nil, storageError(err)
		}
		return connect.NewResponse(&agentv1.FreezeResponse{}), nil
	}
	f := &freeze{release: release, over: make(chan struct{})}
	s.frozen = f
	go s.watchFreeze(f, limit, sessionOf(ctx).over)
	return connect.NewResponse(&agentv1.FreezeResponse{Frozen: true}), nil
}

// watchFreeze thaws the file systems at the time limit or at the end of the session, unless they
// are thawed before.
func (s *Server) watchFreeze(f *freeze, limit time.Duration, sessionOver <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-f.over:
		return
	case <-timer.C:
	case <-sessionOver:
	}
	s.freezing.Lock()
	defer s.freezing.Unlock()
	if s.frozen == f {
		s.thawLocked() // after an error the file systems stay frozen, and the next thaw reports the error
	}
}

// hold stops all processes for at most limit. The caller must have locked s.freezing.
func (s *Server) hold(limit time.Duration) error {
	s.cancelTimeout()
	var timeout *time.Timer
	timeout = time.AfterFunc(limit, func() {
		s.freezing.Lock()
		defer s.freezing.Unlock()
		if s.timeout == timeout {
			s.releaseLocked() // after an error the processes stay stopped, and the next release reports the error
		}
	})
	s.held, s.timeout = true, timeout
	return s.env.Hold()
}

// cancelTimeout cancels the time limit of hold. The caller must have locked s.freezing.
func (s *Server) cancelTimeout() {
	if s.timeout != nil {
		s.timeout.Stop()
		s.timeout = nil
	}
}

// holdUntilThaw removes the time limit from stopped processes, so that they stay stopped until the
// next Thaw.
func (s *Server) holdUntilThaw() error {
	s.freezing.Lock()
	defer s.freezing.Unlock()
	s.cancelTimeout()
	return nil
}

// releaseLocked resumes the processes that hold has stopped. The caller must have locked
// s.freezing.
func (s *Server) releaseLocked() error {
	if !s.held {
		return nil
	}
	s.cancelTimeout()
	if err := s.env.Release(); err != nil {
		return err
	}
	s.held = false
	return nil
}

// Thaw allows writes again and resumes stopped processes.
func (s *Server) Thaw(context.Context, *connect.Request[agentv1.ThawRequest]) (*connect.Response[agentv1.ThawResponse], error) {
	held, err := s.thaw()
	if err == nil {
		err = s.releaseProcesses()
	}
	if err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.ThawResponse{Held: held}), nil
}

// releaseProcesses resumes stopped processes.
func (s *Server) releaseProcesses() error {
	s.freezing.Lock()
	defer s.freezing.Unlock()
	return s.releaseLocked()
}

func (s *Server) thaw() (held bool, err error) {
	s.freezing.Lock()
	defer s.freezing.Unlock()
	return s.thawLocked()
}

func (s *Server) thawLocked() (held bool, err error) {
	f := s.frozen
	if f == nil {
		return false, nil
	}
	if err := s.env.Thaw(); err != nil {
		return false, err
	}
	s.frozen = nil
	close(f.over)
	f.release()
	return true, nil
}

// Flush writes all data of the volume to its disk. If the request asks for it, Flush also writes
// the data of the root.
func (s *Server) Flush(_ context.Context, req *connect.Request[agentv1.FlushRequest]) (*connect.Response[agentv1.FlushResponse], error) {
	if err := s.env.Flush(req.Msg.Root); err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.FlushResponse{}), nil
}
