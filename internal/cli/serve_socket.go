package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/serve"
	"github.com/pyro-mcp/pyro/internal/serve/listen"
)

// serveSocket contains the flags of "pyro serve" for its socket.
type serveSocket struct {
	address, cert, key        string
	acmeDomain, acmeDirectory string
	domain                    string
	insecure                  bool
}

func (s *serveSocket) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.address, "listen", "127.0.0.1:8080", "listen on this `ADDRESS:PORT`, without TLS a loopback address; port 0: a free port. A socket from systemd replaces it")
	f.BoolVar(&s.insecure, "insecure", false, "without TLS, also listen on addresses that are not loopback addresses; everybody in the network can then read API keys")
	f.StringVar(&s.domain, "domain", "", "the `NAME` of this server; port 8000 of a sandbox is then also at 8000-ID.NAME")
	f.StringVar(&s.cert, "tls-cert", "", "serve TLS with the certificate in the file at this `PATH`; read again when it changes")
	f.StringVar(&s.key, "tls-key", "", "`PATH` of the certificate's key")
	f.StringVar(&s.acmeDomain, "acme-domain", "", "serve TLS with a certificate for this `NAME` from an ACME server, which connects to port 443 of this host")
	f.StringVar(&s.acmeDirectory, "acme-directory", "", "`URL` of the ACME server; default Let's Encrypt")
}

// open opens the socket.
func (s *serveSocket) open(d dirs.Dirs, log *slog.Logger) (listen.Socket, error) {
	return listen.Open(listen.Options{
		Address: s.address, Insecure: s.insecure, CertFile: s.cert, KeyFile: s.key, Domain: strings.ToLower(s.acmeDomain), Directory: s.acmeDirectory,
		Cache: filepath.Join(d.State, "acme"), Log: log,
	})
}

// names returns the names of the server in addition to localhost.
func (s *serveSocket) names() (all []string, err error) {
	for _, flag := range []struct{ name, value string }{{"--domain", s.domain}, {"--acme-domain", s.acmeDomain}} {
		name := strings.ToLower(flag.value)
		if name == "" || slices.Contains(all, name) {
			continue
		}
		if !domainName().MatchString(name) || net.ParseIP(name) != nil {
			return nil, fault.Newf(fault.Invalid, "%s %q is not the name of a host", flag.name, fault.Printable(flag.value)).
				WithHint("use a name such as pyro.example.com, without a port")
		}
		all = append(all, name)
	}
	return all, nil
}

// domainName matches names whose labels are not empty. The label of a preview comes before them.
var domainName = lazyregexp.New(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{1,63}$`)

// origin returns the address at which clients reach a socket.
func origin(s listen.Socket, names []string) string {
	address := s.Addr().String()
	if s.TLS == nil {
		return "http://" + address
	}
	if _, port, err := net.SplitHostPort(address); err == nil && len(names) > 0 {
		if port == "443" {
			return "https://" + names[0]
		}
		address = net.JoinHostPort(names[0], port)
	}
	return "https://" + address
}

// shutdownTime is the maximum time for requests in progress when the server ends.
const shutdownTime = 10 * time.Second

// serveAPI serves the API until ctx ends.
func serveAPI(ctx context.Context, socket listen.Socket, api *serve.Server, log *slog.Logger) error {
	var fresh connections
	server := &http.Server{
		Handler: api, TLSConfig: socket.TLS, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ConnState: fresh.track,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() {
		if socket.TLS != nil {
			ended <- server.ServeTLS(socket, "", "")
		} else {
			ended <- server.Serve(socket)
		}
	}()
	select {
	case err := <-ended:
		return fault.Wrap(err, "serve", socket.Addr().String())
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	var streams sync.WaitGroup
	streams.Go(api.Shutdown)
	streams.Go(fresh.close)
	if err := server.Shutdown(patient); err != nil {
		server.Close()
	}
	streams.Wait()
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(err, "serve", socket.Addr().String())
	}
	return nil
}

// connections are the connections that have sent no request yet. Browsers open some in advance, and
// http.Server.Shutdown waits five seconds for each.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	ending bool
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(c.open, conn)
	case c.ending:
		conn.Close()
	default:
		if c.open == nil {
			c.open = map[net.Conn]bool{}
		}
		c.open[conn] = true
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for conn := range c.open {
		conn.Close()
	}
}
