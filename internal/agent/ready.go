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
	maxNames = 64        // execs that a request names
)

// errExecEnded means that an exec ended before it was ready.
var errExecEnded = errors.New("the exec has ended")

// Ready waits until a file exists, a TCP port accepts connections, or a URL returns a successful
// response. If the request names an exec, Ready fails when the exec ends, and the port must belong
// to a process of the exec.
func (s *Server) Ready(ctx context.Context, req *connect.Request[agentv1.ReadyRequest]) (*connect.Response[agentv1.ReadyResponse], error) {
	m := req.Msg
	var p *process
	if m.Exec != "" {
		if p = s.execs.running(m.Exec); p == nil {
			return nil, connect.NewError(connect.CodeFailedPrecondition, errExecEnded)
		}
	}
	probe, err := s.probeFor(m, p)
	if err != nil {
		return nil, err
	}
	if m.LimitMs < 1 || m.LimitMs > maxReady || m.IntervalMs < 1 || m.IntervalMs > maxReady {
		return nil, invalid(fmt.Sprintf("limit_ms and interval_ms must be 1 to %d", maxReady))
	}
	end := time.Now().Add(time.Duration(m.LimitMs) * time.Millisecond)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	wait := readyPoll
	var last error // error of the last probe that failed before the time limit
	for {
		stamp, err := probe(ctx)
		if err == nil && (p == nil || !p.hasEnded()) {
			return connect.NewResponse(&agentv1.ReadyResponse{Stamp: stamp}), nil
		}
		if err != nil && (last == nil || time.Now().Before(end)) { // ctx can end later than its deadline
			last = err
		}
		if errors.As(err, new(notReady)) { // each probe costs the service or the agent work, so the interval grows
			wait = min(2*wait, max(readyPoll, time.Duration(m.IntervalMs)*time.Millisecond))
		}
		switch err := p.awaitEnd(ctx, wait); {
		case errors.Is(err, errExecEnded):
			if last != nil {
				err = fmt.Errorf("%w: %w", err, last)
			}
			return nil, connect.NewError(connect.CodeFailedPrecondition, err)
		case err != nil:
			return nil, connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("not ready: %w", last))
		}
	}
}

// awaitEnd waits for the given time. If the exec ends earlier, it returns errExecEnded. If ctx ends
// earlier, it returns the error of ctx. p can be nil.
func (p *process) awaitEnd(ctx context.Context, wait time.Duration) error {
	over := time.After(wait)
	for {
		var changed <-chan struct{}
		if p != nil {
			changed = p.nextChange()
			if p.hasEnded() {
				return errExecEnded
			}
		}
		select {
		case <-changed:
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notReady is the reason why a port that accepts connections does not count as ready.
type notReady string

func (n notReady) Error() string { return string(n) }

// probeFor returns a function that checks the condition of a request once. The function returns the
// stamp of the file. p is the exec that becomes ready, or nil for any.
func (s *Server) probeFor(m *agentv1.ReadyRequest, p *process) (func(context.Context) (string, error), error) {
	if len(m.Names) > maxNames {
		return nil, invalid(fmt.Sprintf("names must have at most %d entries", maxNames))
	}
	connected := func(ctx context.Context, conn net.Conn) error {
		if p == nil {
			return nil
		}
		return s.checkListener(ctx, p, conn, m.Names)
	}
	switch {
	case m.File != "":
		if err := volume.CheckPath(m.File); err != nil {
			return nil, invalid(err.Error())
		}
		return func(context.Context) (string, error) {
			root, err := s.env.Root()
			if err != nil {
				return "", err
			}
			stamp, err := stampOf(root, s.env.Path(m.File))
			if err == nil && stamp == m.Stale {
				err = fmt.Errorf("%s has not changed since before the start", m.File)
			}
			return stamp, err
		}, nil
	case m.Tcp != "":
		if _, _, err := net.SplitHostPort(m.Tcp); err != nil || len(m.Tcp) > 256 {
			return nil, invalid("tcp must be host:port")
		}
		return func(ctx context.Context) (string, error) {
			conn, err := dial(ctx, m.Tcp)
			if err != nil {
				return "", err
			}
			defer conn.Close()
			return "", connected(ctx, conn)
		}, nil
	case m.Http != "":
		u, err := url.Parse(m.Http)
		if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(m.Http) > maxPath || strings.ContainsAny(m.Http, " \r\n") {
			return nil, invalid("http must be a URL of the form http://host:port/path")
		}
		return func(ctx context.Context) (string, error) { return "", get(ctx, u, connected) }, nil
	case p != nil:
		return func(context.Context) (string, error) { return "", nil }, nil
	}
	return nil, invalid("file, tcp, http or exec must be set")
}

// stampOf returns a text that changes when a file is changed or replaced.
func stampOf(root int, path string) (string, error) {
	f, err := volume.OpenIn(root, path, unix.O_PATH, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()), nil
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

// get requests a URL and checks the status of the response. It does not read the body. The function
// connected checks the connection before the request.
func get(ctx context.Context, u *url.URL, connected func(context.Context, net.Conn) error) error {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := dial(ctx, net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := connected(ctx, conn); err != nil {
		return err
	}
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
		return notReady("it answers with status " + strconv.Itoa(status))
	}
	return nil
}
