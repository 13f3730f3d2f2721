package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

const (
	// readyPoll is the interval between two cheap probes.
	readyPoll = 10 * time.Millisecond
	// readyAnswer limits the wait for one connection or response.
	readyAnswer = 2 * time.Second

	maxReady = 3_600_000 // milliseconds
)

// Ready waits until a file exists, a TCP port accepts connections, or a URL returns a successful
// response.
func (s *Server) Ready(ctx context.Context, req *connect.Request[agentv1.ReadyRequest]) (*connect.Response[agentv1.ReadyResponse], error) {
	m := req.Msg
	probe, err := s.probeFor(m)
	if err != nil {
		return nil, err
	}
	if m.LimitMs < 1 || m.LimitMs > maxReady || m.IntervalMs < 1 || m.IntervalMs > maxReady {
		return nil, invalid(fmt.Sprintf("limit_ms and interval_ms must be 1 to %d", maxReady))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(m.LimitMs)*time.Millisecond)
	defer cancel()
	wait := readyPoll
	var last error // error of the last probe that failed before the time limit
	for {
		err := probe(ctx)
		if err == nil {
			return connect.NewResponse(&agentv1.ReadyResponse{}), nil
		}
		if last == nil || !os.IsTimeout(err) {
			last = err
		}
		if answered := (notReady{}); errors.As(err, &answered) { // each request costs the service work, so the interval grows
			wait = min(2*wait, max(readyPoll, time.Duration(m.IntervalMs)*time.Millisecond))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("not ready: %w", last))
		}
	}
}

// notReady is an HTTP response whose status does not mean success.
type notReady struct{ status int }

func (n notReady) Error() string { return "it answers with status " + strconv.Itoa(n.status) }

// probeFor returns a function that checks the condition of a request once.
func (s *Server) probeFor(m *agentv1.ReadyRequest) (func(context.Context) error, error) {
	switch {
	case m.File != "":
		if err := volume.CheckPath(m.File); err != nil {
			return nil, invalid(err.Error())
		}
		return func(context.Context) error {
			root, err := s.env.Root()
			if err != nil {
				return err
			}
			f, err := volume.OpenIn(root, s.env.Path(m.File), unix.O_PATH, 0)
			if err == nil {
				f.Close()
			}
			return err
		}, nil
	case m.Tcp != "":
		if _, _, err := net.SplitHostPort(m.Tcp); err != nil || len(m.Tcp) > 256 {
			return nil, invalid("tcp must be host:port")
		}
		return func(ctx context.Context) error {
			conn, err := dial(ctx, m.Tcp)
			if err == nil {
				conn.Close()
			}
			return err
		}, nil
	case m.Http != "":
		u, err := url.Parse(m.Http)
		if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(m.Http) > maxPath || strings.ContainsAny(m.Http, " \r\n") {
			return nil, invalid("http must be a URL of the form http://host:port/path")
		}
		return func(ctx context.Context) error { return get(ctx, u) }, nil
	}
	return nil, invalid("file, tcp or http must be set")
}

// dial connects to an address. It resolves no host names except localhost.
func dial(ctx context.Context, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "localhost" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	ctx, cancel := context.WithTimeout(ctx, readyAnswer)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// get requests a URL and checks the status of the response. It does not read the body.
func get(ctx context.Context, u *url.URL) error {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := dial(ctx, net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(readyAnswer))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: pyro\r\nAccept: */*\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host); err != nil {
		return err
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, 1024), 1024).ReadString('\n')
	if err != nil {
		return err
	}
	version, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(version, "HTTP/") {
		return errors.New("the response is not HTTP")
	}
	if status < 200 || status > 399 {
		return notReady{status}
	}
	return nil
}
