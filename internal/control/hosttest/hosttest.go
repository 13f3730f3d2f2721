// Package hosttest provides a fake host agent for tests. Its sandboxes have no machines.
package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// Host is a fake host agent, and also the client that calls it. Its calls to create, pause, resume
// and destroy sandboxes return the same errors as the real host agent.
type Host struct {
	hostagentv1connect.HostAgentServiceClient // nil: other calls panic
	hostv1connect.HostServiceClient           // likewise

	mu        sync.Mutex
	sandboxes map[string]*pb.SandboxInfo
	templates map[string]*pb.SandboxInfo // the sandboxes that became templates, by template ID.
	programs  programs
	remote    *remote                   // client of an in-memory server. Nil before its first use.
	ports     map[string]string         // address that each sandbox's port connects to.
	changed   chan struct{}             // closed and replaced when a sandbox changes.
	streams   int                       // open streams of Watch
	states    map[string]state          // for Watch
	broken    chan struct{}             // closed and replaced to break these streams
	folders   map[*[]string]chan uint64 // the paths and changes of each stream of WatchFolders

	calls []Called

	// Operation returns the result of a call of an operation. It may be nil.
	Operation func(sandbox, method string, params json.RawMessage) (any, error)
	// Break is called before and after the effect of each call, with the name of the call. Its
	// error is the error of the call. It may be nil. SetBreak changes it during calls.
	Break func(call string, done bool) error
}

// SetBreak sets Break.
func (h *Host) SetBreak(f func(call string, done bool) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Break = f
}

// New returns a host without sandboxes.
func New() *Host {
	return &Host{
		sandboxes: map[string]*pb.SandboxInfo{}, templates: map[string]*pb.SandboxInfo{}, changed: make(chan struct{}), broken: make(chan struct{}),
		states: map[string]state{}, folders: map[*[]string]chan uint64{},
	}
}

// Statuses returns the status of each sandbox.
func (h *Host) Statuses() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]string{}
	for id, b := range h.sandboxes {
		all[id] = b.Status
	}
	return all
}

// Env returns the variables of a sandbox.
func (h *Host) Env(id string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sandboxes[id].GetMetadata()
}

// PauseInactive pauses a sandbox as the host agent does after a time without use.
func (h *Host) PauseInactive(id string) { h.Set(id, "paused") }

// Lose removes a sandbox, as if the disk of the host was replaced.
func (h *Host) Lose(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sandboxes, id)
	h.notify()
}

// do runs the effect of a call between two calls of Break.
func (h *Host) do(ctx context.Context, call string, effect func() error) error {
	if ctx.Err() != nil {
		return connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	h.mu.Lock()
	fail := h.Break
	h.mu.Unlock()
	if fail != nil {
		if err := fail(call, false); err != nil {
			return err
		}
	}
	h.mu.Lock()
	err := effect()
	h.notify()
	h.mu.Unlock()
	if err == nil && fail != nil {
		err = fail(call, true)
	}
	return err
}

func failed(code connect.Code, text string) error { return connect.NewError(code, errors.New(text)) }

// CreateSandbox implements the host agent's service.
func (h *Host) CreateSandbox(ctx context.Context, req *connect.Request[pb.CreateSandboxRequest]) (*connect.Response[pb.CreateSandboxResponse], error) {
	m := req.Msg
	err := h.do(ctx, "create", func() error {
		if h.sandboxes[m.SandboxId] != nil {
			return failed(connect.CodeAlreadyExists, "there is a sandbox with this ID")
		}
		if m.TemplateId != "" && h.templates[m.TemplateId] == nil || m.TemplateId == "" && m.Template != "minimal" && !strings.Contains(m.Template, ":") {
			return failed(connect.CodeNotFound, "no template and no installed environment has this name")
		}
		h.sandboxes[m.SandboxId] = &pb.SandboxInfo{
			SandboxId: m.SandboxId, Status: "running", Template: m.Template, Vcpus: m.Vcpus, MemoryMb: m.MemoryMb, TimeoutSec: m.TimeoutSec,
			CreatedAtUnix: time.Now().Unix(), LastActiveAtUnix: time.Now().Unix(), Metadata: m.DefaultEnv,
			TemplateId: m.TemplateId,
		}
		return nil
	})
	return connect.NewResponse(&pb.CreateSandboxResponse{SandboxId: m.SandboxId, Status: "running"}), err
}

// DestroySandbox implements the host agent's service.
func (h *Host) DestroySandbox(ctx context.Context, req *connect.Request[pb.DestroySandboxRequest]) (*connect.Response[pb.DestroySandboxResponse], error) {
	err := h.do(ctx, "destroy", func() error {
		if h.sandboxes[req.Msg.SandboxId] == nil {
			return failed(connect.CodeNotFound, "there is no such sandbox")
		}
		delete(h.sandboxes, req.Msg.SandboxId)
		return nil
	})
	return connect.NewResponse(&pb.DestroySandboxResponse{}), err
}

// PauseSandbox implements the host agent's service.
func (h *Host) PauseSandbox(ctx context.Context, req *connect.Request[pb.PauseSandboxRequest]) (*connect.Response[pb.PauseSandboxResponse], error) {
	err := h.do(ctx, "pause", func() error { return h.set(req.Msg.SandboxId, "running", "paused") })
	return connect.NewResponse(&pb.PauseSandboxResponse{}), err
}

// ResumeSandbox implements the host agent's service.
func (h *Host) ResumeSandbox(ctx context.Context, req *connect.Request[pb.ResumeSandboxRequest]) (*connect.Response[pb.ResumeSandboxResponse], error) {
	err := h.do(ctx, "resume", func() error { return h.set(req.Msg.SandboxId, "paused", "running") })
	return connect.NewResponse(&pb.ResumeSandboxResponse{}), err
}

func (h *Host) set(id, from, to string) error {
	b := h.sandboxes[id]
	switch {
	case b == nil:
		return failed(connect.CodeNotFound, "there is no such sandbox")
	case b.Status != from && b.Status != to:
		return failed(connect.CodeFailedPrecondition, "the sandbox is "+b.Status)
	}
	b.Status = to
	return nil
}

// GetSandboxMetrics implements the host agent's service. It returns one point each minute.
func (h *Host) GetSandboxMetrics(ctx context.Context, req *connect.Request[pb.GetSandboxMetricsRequest]) (*connect.Response[pb.GetSandboxMetricsResponse], error) {
	r := &pb.GetSandboxMetricsResponse{}
	err := h.do(ctx, "metrics", func() error {
		if h.sandboxes[req.Msg.SandboxId] == nil {
			return failed(connect.CodeNotFound, "there is no such sandbox")
		}
		length, err := time.ParseDuration(req.Msg.Range)
		for i := range int64(length / time.Minute) {
			r.Points = append(r.Points, &pb.MetricPoint{TimestampUnix: 60 * i, CpuPct: 1})
		}
		return err
	})
	return connect.NewResponse(r), err
}
