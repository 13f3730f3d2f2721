package hosttest

import (
	"context"
	"encoding/json"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// Called is a call of an operation.
type Called struct {
	Sandbox, Method string
	Params          json.RawMessage
}

// Calls returns the calls of operations so far.
func (h *Host) Calls() []Called {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Called(nil), h.calls...)
}

// Call implements the client of the host service.
func (h *Host) Call(ctx context.Context, req *connect.Request[hostv1.CallRequest]) (*connect.ServerStreamForClient[hostv1.CallResponse], error) {
	return h.service().Call(ctx, req)
}

// Call implements the host service. The function Host.Operation makes the result.
func (s service) Call(ctx context.Context, req *connect.Request[hostv1.CallRequest], to *connect.ServerStream[hostv1.CallResponse]) error {
	h, m := s.host, req.Msg
	var result any
	err := h.do(ctx, "call", func() error {
		if h.sandboxes[m.SandboxId] == nil {
			return failed(connect.CodeNotFound, "there is no such sandbox")
		}
		if m.OnlyRunning && h.sandboxes[m.SandboxId].Status != "running" {
			return failed(connect.CodeFailedPrecondition, "the sandbox is paused")
		}
		h.calls = append(h.calls, Called{m.SandboxId, m.Method, m.Params})
		if h.Operation == nil {
			return failed(connect.CodeUnimplemented, "there is no such operation")
		}
		var err error
		result, err = h.Operation(m.SandboxId, m.Method, m.Params)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range []*hostv1.CallResponse{
		{Event: &hostv1.CallResponse_Progress{Progress: `{"phase": "calling", "subject": "` + m.Method + `"}`}},
		{Event: &hostv1.CallResponse_Stdout{Stdout: []byte("out")}}, {Event: &hostv1.CallResponse_Stderr{Stderr: []byte("err")}},
	} {
		if err := to.Send(e); err != nil {
			return err
		}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return to.Send(&hostv1.CallResponse{Event: &hostv1.CallResponse_Result{Result: text}})
}

// ForkSandbox implements the host service.
func (h *Host) ForkSandbox(ctx context.Context, req *connect.Request[hostv1.ForkSandboxRequest]) (*connect.Response[hostv1.ForkSandboxResponse], error) {
	m := req.Msg
	err := h.do(ctx, "fork", func() error {
		source := h.sandboxes[m.SandboxId]
		switch {
		case h.sandboxes[m.NewSandboxId] != nil:
			return nil
		case source == nil:
			return failed(connect.CodeNotFound, "there is no such sandbox")
		case m.Snapshot == "missing":
			return failed(connect.CodeNotFound, "there is no such snapshot")
		}
		made := proto.Clone(source).(*pb.SandboxInfo)
		made.SandboxId, made.Status, made.CreatedAtUnix, made.LastActiveAtUnix = m.NewSandboxId, "running", time.Now().Unix(), time.Now().Unix()
		h.sandboxes[m.NewSandboxId] = made
		return nil
	})
	return connect.NewResponse(&hostv1.ForkSandboxResponse{Status: "running"}), err
}
