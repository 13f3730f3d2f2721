package agent

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// quiescePatience bounds Quiesce, maxFreeze how long file systems may be frozen.
const (
	quiescePatience = 20 * time.Second
	maxFreeze       = time.Minute
)

// Mount mounts the root and the volume.
func (s *Server) Mount(_ context.Context, req *connect.Request[agentv1.MountRequest]) (*connect.Response[agentv1.MountResponse], error) {
	r, err := s.place.Mount(req.Msg.Root, req.Msg.Volume)
	if err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.MountResponse{Completed: uint32(r.Completed), Undone: uint32(r.Undone)}), nil
}

// storageError gives the RPC's error for what went wrong with a file system.
func storageError(err error) error {
	switch {
	case errors.Is(err, volume.ErrDamaged):
		return connect.NewError(connect.CodeDataLoss, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return pathError(err)
}

// Quiesce sees to it that nothing is lost with the end of the machine. It is not given up when its caller is.
func (s *Server) Quiesce(ctx context.Context, _ *connect.Request[agentv1.QuiesceRequest]) (*connect.Response[agentv1.QuiesceResponse], error) {
	_, err := s.thaw()
	if err = errors.Join(err, s.awake()); err != nil {
		return nil, storageError(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quiescePatience)
	defer cancel()
	if err := s.place.Quiesce(ctx); err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.QuiesceResponse{}), nil
}

// freeze is file systems that are frozen.
type freeze struct {
	release func() // lets changes be applied
	over    chan struct{}
}

// Freeze freezes file systems, until Thaw, the end of the limit or that of the session.
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
			return nil, storageError(errors.Join(err, s.letGo()))
		}
	}
	answer, err := s.freeze(ctx, req.Msg, limit)
	if err != nil && req.Msg.Processes {
		err = errors.Join(err, s.letGo())
	}
	return answer, err
}

// freeze freezes file systems. It is called with the lock held.
func (s *Server) freeze(ctx context.Context, m *agentv1.FreezeRequest, limit time.Duration) (*connect.Response[agentv1.FreezeResponse], error) {
	release := func() {}
	if m.Volume {
		v, err := s.place.Volume()
		if err != nil {
			return nil, storageError(err)
		}
		if release, err = v.Still(ctx); err != nil {
			return nil, err
		}
	}
	frozen, err := s.place.Freeze(m.Root, m.Volume)
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

// watchFreeze thaws what nobody thaws in time.
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
		s.thawLocked() // nobody is there to be told of an error; whoever thaws next meets it again
	}
}

// hold has no process run for a time, unless it is let go before.
func (s *Server) hold(limit time.Duration) error {
	s.endless()
	var over *time.Timer
	over = time.AfterFunc(limit, func() {
		s.freezing.Lock()
		defer s.freezing.Unlock()
		if s.limit == over {
			s.letGo() // nobody is there to be told of an error; whoever does it next meets it again
		}
	})
	s.held, s.limit = true, over
	return s.place.Hold()
}

// endless takes from what is held the limit that it had. It is called with the lock held.
func (s *Server) endless() {
	if s.limit != nil {
		s.limit.Stop()
		s.limit = nil
	}
}

// stay has processes that are held be so until somebody lets them go.
func (s *Server) stay() error {
	s.freezing.Lock()
	defer s.freezing.Unlock()
	s.endless()
	return nil
}

// letGo has processes run again. It is called with the lock held.
func (s *Server) letGo() error {
	if !s.held {
		return nil
	}
	s.endless()
	if err := s.place.Release(); err != nil {
		return err
	}
	s.held = false
	return nil
}

// Thaw lets writing go on.
func (s *Server) Thaw(context.Context, *connect.Request[agentv1.ThawRequest]) (*connect.Response[agentv1.ThawResponse], error) {
	held, err := s.thaw()
	if err == nil {
		err = s.awake()
	}
	if err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.ThawResponse{Held: held}), nil
}

// awake has processes run again.
func (s *Server) awake() error {
	s.freezing.Lock()
	defer s.freezing.Unlock()
	return s.letGo()
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
	if err := s.place.Thaw(); err != nil {
		return false, err
	}
	s.frozen = nil
	close(f.over)
	f.release()
	return true, nil
}

// Flush has everything that was written on the disk.
func (s *Server) Flush(_ context.Context, req *connect.Request[agentv1.FlushRequest]) (*connect.Response[agentv1.FlushResponse], error) {
	if err := s.place.Flush(req.Msg.Root); err != nil {
		return nil, storageError(err)
	}
	return connect.NewResponse(&agentv1.FlushResponse{}), nil
}
