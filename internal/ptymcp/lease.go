package ptymcp

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/session"
)

// leaseFields are what is told of the lease of a session.
type leaseFields struct {
	Client      *string  `json:"attached_client_id"`
	SpaceClient *string  `json:"workspace_attached_client_id"` // that has a session of the same tmux_workspace
	SpaceHeld   int      `json:"workspace_attached_sessions"`  // how many of them
	Event       *string  `json:"last_lease_event"`             // handoff or takeover
	From        *string  `json:"last_lease_from_client_id"`
	To          *string  `json:"last_lease_to_client_id"`
	Why         *string  `json:"last_lease_reason"` // not Reason: a field of that name around it would hide it from schemas
	At          *float64 `json:"last_lease_at"`
}

// shared is the lease of a session, and what is known of those that share it.
func shared(info session.Info, all []session.Info, leases map[string]session.Lease) leaseFields {
	own := leases[info.ID]
	f := leaseFields{Event: orNull(own.Last.Event), From: orNull(own.Last.From), To: orNull(own.Last.To), Why: orNull(own.Last.Reason)}
	if !own.Last.At.IsZero() {
		at := epoch(own.Last.At)
		f.At = &at
	}
	if info.Running() {
		f.Client = orNull(own.Client)
	}
	if info.TmuxWorkspace == "" {
		return f
	}
	for _, other := range all {
		held := leases[other.ID].Client
		if held != "" && other.Running() && other.Backend == info.Backend && other.TmuxWorkspace == info.TmuxWorkspace && other.Owner == info.Owner {
			f.SpaceClient = &held
			f.SpaceHeld++
		}
	}
	return f
}

// leaseRequest is that of the tools of leases.
type leaseRequest struct {
	target
	Target string `json:"target_client_id"`
	From   string `json:"from_client_id"`
	Reason string `json:"reason"`
}

// leaseResult is their result: how the lease is now.
type leaseResult struct {
	OK        bool   `json:"ok"`
	SessionID string `json:"session_id"`
	leaseFields
}

// leasing makes a tool of a change of leases.
func (s *Server) leasing(tool string, change func(ctx context.Context, req leaseRequest) error) func(context.Context, leaseRequest, func(string)) (*leaseResult, error) {
	return func(ctx context.Context, req leaseRequest, _ func(string)) (*leaseResult, error) {
		info, err := s.use(req.target, observes(tool))
		if err != nil {
			return nil, err
		}
		if err := change(ctx, req); err != nil {
			return nil, err
		}
		touch(info)
		all, err := s.sessions.List()
		if err != nil {
			return nil, err
		}
		leases, err := s.sessions.Leases()
		return &leaseResult{true, info.ID, shared(info, all, leases)}, err
	}
}

func (s *Server) attach(ctx context.Context, req leaseRequest) error {
	return s.sessions.Attach(ctx, req.SessionID, req.ClientID)
}

func (s *Server) detach(ctx context.Context, req leaseRequest) error {
	return s.sessions.Detach(ctx, req.SessionID, req.ClientID)
}

func (s *Server) handoff(ctx context.Context, req leaseRequest) error {
	return s.sessions.Handoff(ctx, req.SessionID, req.ClientID, req.Target, req.Reason)
}

func (s *Server) takeover(ctx context.Context, req leaseRequest) error {
	return s.sessions.Takeover(ctx, req.SessionID, req.ClientID, req.From, req.Reason)
}
