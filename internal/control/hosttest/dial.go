package hosttest

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// Listen forwards connections to a port of a sandbox to a TCP address of the host.
func (h *Host) Listen(id string, port int, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports == nil {
		h.ports = map[string]string{}
	}
	h.ports[id+":"+strconv.Itoa(port)] = address
}

// Dial implements the client of the host service. Its streams need a connection, so they use a
// server in memory.
func (h *Host) Dial(ctx context.Context) *connect.BidiStreamForClient[hostv1.DialRequest, hostv1.DialResponse] {
	return h.service().Dial(ctx)
}

// remote is a client of a server in memory.
type remote struct {
	hostv1connect.HostServiceClient
	hostagentv1connect.HostAgentServiceClient
}

// service returns a client of a server in memory.
func (h *Host) service() *remote {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.remote != nil {
		return h.remote
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(hostv1connect.NewHostServiceHandler(service{host: h}))
	mux.Handle(hostagentv1connect.NewHostAgentServiceHandler(agent{host: h}, connect.WithCompressMinBytes(1<<30)))
	l := memory{make(chan net.Conn)}
	server := &http.Server{Handler: mux, Protocols: &protocols}
	go server.Serve(l)
	transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		l.conns <- b
		return a, nil
	}}
	client, address := &http.Client{Transport: transport}, "http://host"
	h.remote = &remote{
		hostv1connect.NewHostServiceClient(client, address, connect.WithGRPC()), hostagentv1connect.NewHostAgentServiceClient(client, address, connect.WithGRPC()),
	}
	return h.remote
}

// memory is a listener for connections in memory. It is never closed.
type memory struct{ conns chan net.Conn }

func (m memory) Accept() (net.Conn, error) { return <-m.conns, nil }
func (m memory) Close() error              { return nil }
func (m memory) Addr() net.Addr            { return &net.TCPAddr{} }

// service serves the calls that have streams.
type service struct {
	hostv1connect.UnimplementedHostServiceHandler
	host *Host
}

// Dial implements the host service.
func (s service) Dial(ctx context.Context, stream *connect.BidiStream[hostv1.DialRequest, hostv1.DialResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	conn, err := s.host.dialPort(ctx, first.GetOpen())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := stream.Send(&hostv1.DialResponse{}); err != nil {
		return err
	}
	go func() {
		defer conn.Close()
		for {
			m, err := stream.Receive()
			if err != nil {
				return
			}
			if _, err := conn.Write(m.GetData()); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := conn.Read(b)
		if n > 0 {
			if err := stream.Send(&hostv1.DialResponse{Data: b[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// dialPort connects to a port, and resumes a paused sandbox.
func (h *Host) dialPort(ctx context.Context, open *hostv1.DialRequest_Open) (net.Conn, error) {
	var address string
	err := h.do(ctx, "dial", func() error {
		b := h.sandboxes[open.GetSandboxId()]
		if b == nil {
			return failed(connect.CodeNotFound, "there is no such sandbox")
		}
		b.Status = "running"
		address = h.ports[open.SandboxId+":"+strconv.Itoa(int(open.Port))]
		return nil
	})
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if address == "" || err != nil {
		e := connect.NewError(connect.CodeUnavailable, err)
		if detail, err := connect.NewErrorDetail(&pb.ErrorDetail{Kind: "unavailable", Op: "connect to port"}); err == nil {
			e.AddDetail(detail)
		}
		return nil, e
	}
	return conn, nil
}
