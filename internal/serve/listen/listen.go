// Package listen opens the socket of "pyro serve" and reads its certificates.
package listen

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Options configure a socket. Without certificates, its address must be a loopback address, unless
// Insecure is set.
type Options struct {
	Address  string // ADDRESS:PORT; not used if systemd passes a socket
	Insecure bool

	// CertFile and KeyFile are PEM files with a certificate and its key. Empty: not from files.
	CertFile, KeyFile string
	// Domain is the name for which an ACME server issues a certificate. Empty: no ACME.
	Domain    string
	Directory string // URL of the ACME server; empty: Let's Encrypt
	Cache     string // folder for the account key and the certificates of ACME

	Log *slog.Logger
}

// Socket is a TCP socket, and the TLS configuration for its connections.
type Socket struct {
	net.Listener
	TLS *tls.Config // nil: no TLS
}

// Open opens a socket. If systemd passes a socket to this process, Open returns that socket.
func Open(o Options) (Socket, error) { return open(o, nil) }

// open is like Open. client calls the ACME server; nil selects the default client.
func open(o Options, client *http.Client) (Socket, error) {
	s := Socket{}
	var err error
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return s, fault.Newf(fault.Invalid, "a certificate needs its key").WithHint("use both --tls-cert and --tls-key")
	case o.CertFile != "" && o.Domain != "":
		return s, fault.Newf(fault.Invalid, "there are two sources of certificates").WithHint("use either --tls-cert and --tls-key, or --acme-domain")
	case o.CertFile != "":
		s.TLS, err = fromFiles(o)
	case o.Domain != "":
		s.TLS = fromACME(o, client)
	}
	if err != nil {
		return s, err
	}
	plain := s.TLS == nil && !o.Insecure
	if plain && !isLoopback(o.Address) {
		return s, errPlain(o.Address)
	}
	inherited, err := activated()
	switch {
	case err != nil:
		return s, fault.Wrap(err, "use the socket of systemd", "")
	case inherited != nil:
		if plain && !isLoopback(inherited.Addr().String()) {
			inherited.Close()
			return s, errPlain(inherited.Addr().String())
		}
		s.Listener = inherited
		return s, nil
	}
	s.Listener, err = net.Listen("tcp", o.Address)
	return s, fault.Wrap(err, "listen on", o.Address)
}

func errPlain(address string) error {
	return fault.New(fault.Invalid, "listen on", address, "it is not a loopback address with a port: without TLS, the network could see API keys").
		WithHint("use --tls-cert and --tls-key, or --acme-domain, or a loopback address behind a proxy with TLS; in a network that you trust, use --insecure")
}

func isLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && port != "" && net.ParseIP(host).IsLoopback()
}

// firstSocket is the descriptor of the first socket that systemd passes, see sd_listen_fds(3).
const firstSocket = 3

// activated returns the socket that systemd passes to this process, or nil if there is none.
func activated() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, nil
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name) // child processes have no such socket
	}
	if count != "1" {
		return nil, fault.Newf(fault.Invalid, "it passes %.20q sockets, and pyro serve needs one", count)
	}
	syscall.CloseOnExec(firstSocket)
	f := os.NewFile(firstSocket, "systemd")
	defer f.Close() // FileListener duplicates it
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	if _, ok := l.(*net.TCPListener); !ok {
		l.Close()
		return nil, errors.New("it is not a TCP socket")
	}
	return l, nil
}

// fromACME returns a configuration whose certificate comes from an ACME server. The ACME server
// verifies the name with the challenge TLS-ALPN-01. It connects to port 443 of this host.
func fromACME(o Options, client *http.Client) *tls.Config {
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(o.Cache), HostPolicy: autocert.HostWhitelist(o.Domain)}
	if o.Directory != "" {
		m.Client = &acme.Client{DirectoryURL: o.Directory, HTTPClient: client}
	}
	config := m.TLSConfig()
	config.MinVersion = tls.VersionTLS12
	return config
}
