package hostagent

import (
	"context"
	"net"
	"strconv"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// dialChunk is the maximum number of bytes in a message from a port. It is also the buffer of a
// connection.
const dialChunk = 32 << 10

// opDial is the operation in errors of ports that can't be reached. It is part of the protocol.
const opDial = "connect to port"

// Dial connects a client to a port of a sandbox. While data flows, the sandbox counts as active. An
// idle connection does not prevent a pause, which closes it.
func (h hostService) Dial(ctx context.Context, stream *connect.BidiStream[hostv1.DialRequest, hostv1.DialResponse]) error {
	ctx, stop := h.agent.streamContext(ctx)
	defer stop(nil)
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil || open.Port == 0 || open.Port > 65535 {
		return fault.New(fault.Invalid, "dial", "", "the first message must have a port from 1 to 65535")
	}
	s, conn, err := h.agent.dialPort(ctx, open.SandboxId, int(open.Port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := stream.Send(&hostv1.DialResponse{}); err != nil {
		return err
	}
	go func() { // ends with the call, because Receive then fails
		defer conn.Close() // workspaces have no half-closed connections
		for {
			m, err := stream.Receive()
			if err != nil {
				return
			}
			s.touch()
			if _, err := conn.Write(m.GetData()); err != nil {
				return
			}
		}
	}()
	b := make([]byte, dialChunk)
	for {
		n, err := conn.Read(b)
		if n > 0 {
			s.touch()
			if err := stream.Send(&hostv1.DialResponse{Data: b[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the program, the client or the machine has closed the connection
		}
	}
}

// dialPort connects to a port of a sandbox. If the sandbox is paused, dialPort resumes it.
func (a *Agent) dialPort(ctx context.Context, id string, port int) (*sandbox, net.Conn, error) {
	s, err := a.find(id)
	if err != nil {
		return nil, nil, fault.Wrap(err, "dial", "")
	}
	end, err := a.useRunning(ctx, s)
	if err != nil {
		return nil, nil, fault.Wrap(err, "dial", id)
	}
	defer end()
	conn, err := a.options.Machines.DialPort(ctx, s.record().WorkspaceID, port)
	return s, conn, fault.Wrap(err, opDial, strconv.Itoa(port))
}

// ensureRunning resumes a sandbox if it is paused.
func (a *Agent) ensureRunning(ctx context.Context, s *sandbox) error {
	if status, err := a.status(s); err != nil || status == statusRunning {
		return err
	}
	done, err := s.lockExisting(ctx)
	if err != nil {
		return err
	}
	defer done()
	switch status, err := a.status(s); {
	case err != nil || status == statusRunning:
		return err
	case status != statusPaused:
		return notRunning(status)
	}
	return a.resume(ctx, s, func(*record) {})
}
