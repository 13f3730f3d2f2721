package ptymcp

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/session"
)

// leaseFields describe the client claim of a session, which the contract calls a lease.
type leaseFields struct {
	Client      *string  `json:"attached_client_id"`
	SpaceClient *string  `json:"workspace_attached_client_id"` // client of the sessions with the same tmux_workspace
	SpaceHeld   int      `json:"workspace_attached_sessions"`  // number of those sessions that have a claim
	Event       *string  `json:"last_lease_event"`             // "handoff" or "takeover"
	From        *string  `json:"last_lease_from_client_id"`
	To          *string  `json:"last_lease_to_client_id"`
	Why         *string  `json:"last_lease_reason"` // not named Reason: an outer field named Reason would hide it in schemas
	At          *float64 `json:"last_lease_at"`
}

// shared describes the claim of a session, and the claims of the sessions that share it.
func shared(info session.Info, all []session.Info, leases map[string]session.Claim) leaseFields {
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

// leaseRequest is the request of the lease tools.
type leaseRequest struct {
	target
	Target string `json:"target_client_id"`
	From   string `json:"from_client_id"`
	Reason string `json:"reason"`
}

// leaseResult is the result of the lease tools. It contains the claim after the change.
type leaseResult struct {
	OK        bool   `json:"ok"`
	SessionID string `json:"session_id"`
	leaseFields
}

// leasing returns a tool that calls a function to change claims.
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
		leases, err := s.sessions.Claims()
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
