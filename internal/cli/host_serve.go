package cli

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostagent"
)

// hostServe contains the flags of "pyro host serve".
type hostServe struct {
	hostAgent
	listen, metrics, tokenFile string
	tls                        hostagent.TLSFiles
}

func newHostServe() *cobra.Command {
	var s hostServe
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve this host's machines to a control plane",
		Long: `Serve this host's machines to a control plane over gRPC, gRPC-Web and Connect. docs/host.md
describes the service.

With --tls-ca, --tls-cert and --tls-key, clients must present a certificate of that CA. "pyro host
certs" makes a set. Without these flags, pyro listens only on a loopback address, and clients must
send a bearer token. The token is in PYRO_HOST_TOKEN or --token-file; otherwise pyro makes one and
prints it.

Sandboxes keep running when the server ends. Only these calls remove them: DestroySandbox,
Terminate, and the calls that make templates.`,
		Example: `  pyro host serve --listen 127.0.0.1:8933 --token-file ~/.config/pyro/host-token
  pyro host serve --listen 0.0.0.0:8933 --tls-ca ca.pem --tls-cert server.pem --tls-key server-key.pem`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:8933", "listen on this `ADDRESS:PORT`; port 0: a free port")
	f.StringVar(&s.tls.CA, "tls-ca", "", "`FILE` with the certificate of the CA that signs certificates of clients")
	f.StringVar(&s.tls.Cert, "tls-cert", "", "`FILE` with the certificate of this host")
	f.StringVar(&s.tls.Key, "tls-key", "", "`FILE` with the key of that certificate")
	f.StringVar(&s.tokenFile, "token-file", "", "without TLS: read the bearer token from the file at this `PATH`")
	f.StringVar(&s.metrics, "metrics-listen", "", "also serve /metrics and /healthz without authentication on this loopback `ADDRESS:PORT`")
	s.hostAgent.flags(cmd)
	f.IntVar(&s.limits.MemoryMB, "memory-mb", hostMemoryMB(), "allow all sandboxes together this memory, in `MB`; 0: no limit")
	f.IntVar(&s.limits.VCPUs, "vcpus", 16*runtime.NumCPU(), "allow all sandboxes together `N` processors; 0: no limit")
	f.IntVar(&s.limits.DiskMB, "disk-mb", 0, "allow all sandboxes together this disk space, in `MB`; 0: no limit")
	f.IntVar(&s.limits.DiskFreeMB, "disk-free-mb", 1024, "refuse new sandboxes below this free disk space, in `MB`")
	for _, name := range []string{"memory-mb", "vcpus"} { // the defaults depend on the host, so the generated reference does not show them
		f.Lookup(name).DefValue = "of the host"
	}
	return cmd
}

// hostMemoryMB returns 90% of the host's memory in MB, or 0 if the memory size is unknown.
func hostMemoryMB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20 / 10 * 9)
}

func (s *hostServe) run(cmd *cobra.Command) error {
	if err := s.check(cmd); err != nil {
		return err
	}
	serving, made, err := s.serving(cmd)
	if err != nil {
		return err
	}
	defer serving.Listener.Close()
	if serving.Metrics != nil {
		defer serving.Metrics.Close()
	}
	d, err := dirs.Default()
	if err != nil {
		return err
	}
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	agent, end, err := s.open(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	scheme := "http"
	if serving.TLS != nil {
		scheme = "https"
	}
	fmt.Printf("serving at %s://%s\n", scheme, serving.Listener.Addr())
	if serving.Metrics != nil {
		fmt.Printf("metrics at http://%s/metrics\n", serving.Metrics.Addr())
	}
	if made {
		fmt.Printf("bearer token, shown this once: %s\n", serving.Token.Reveal())
	}
	s.log.Info("host agent serves", "version", pyro.Version(), "address", serving.Listener.Addr().String(), "tls", serving.TLS != nil)
	debug.SetGCPercent(50) // the heap is small, and calls allocate a lot of garbage
	err = agent.Serve(ctx, serving)
	s.log.Info("host agent ends")
	return err
}

// serving opens the listeners. made reports whether serving created a new token.
func (s *hostServe) serving(cmd *cobra.Command) (at hostagent.ServeOptions, made bool, err error) {
	named := 0
	for _, file := range []string{s.tls.CA, s.tls.Cert, s.tls.Key} {
		if file != "" {
			named++
		}
	}
	switch {
	case named == 3:
		if s.tokenFile != "" {
			return at, false, usage(cmd, "--token-file is for serving without TLS: with TLS, clients present certificates")
		}
		at.TLS, err = s.tls.Config()
	case named > 0:
		return at, false, usage(cmd, "--tls-ca, --tls-cert and --tls-key require each other")
	default:
		if !loopback(s.listen) {
			return at, false, fault.Newf(fault.Invalid, "--listen %q is not a loopback address with a port: without TLS, the network could see the token", s.listen).
				WithHint("pyro host certs, then --tls-ca, --tls-cert and --tls-key")
		}
		at.Token, made, err = bearerTokenOf(hostTokenVariable, s.tokenFile)
	}
	if err != nil {
		return at, false, err
	}
	if s.metrics != "" && !loopback(s.metrics) {
		return at, false, fault.Newf(fault.Invalid, "--metrics-listen %q is not a loopback address with a port", s.metrics).WithHint("--metrics-listen 127.0.0.1:8934")
	}
	if at.Listener, err = net.Listen("tcp", s.listen); err != nil {
		return at, false, fault.Wrap(err, "listen on", s.listen)
	}
	if s.metrics != "" {
		if at.Metrics, err = net.Listen("tcp", s.metrics); err != nil {
			at.Listener.Close()
			return at, false, fault.Wrap(err, "listen on", s.metrics)
		}
	}
	return at, made, nil
}

// hostTokenVariable is the name of the environment variable that contains the token.
const hostTokenVariable = "PYRO_HOST_TOKEN"

func loopback(listen string) bool {
	at, err := netip.ParseAddrPort(listen)
	return err == nil && at.Addr().IsLoopback()
}

func newHostCerts() *cobra.Command {
	var hosts []string
	var dir string
	var days int
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make certificates for pyro host serve",
		Long: `Make a CA for "pyro host serve", and let it sign certificates for the host agent and one client. The
key of each certificate is in the same folder. pyro never overwrites existing files.`,
		Example: `  pyro host certs --dir /etc/pyro/tls --host agent1.example.org --host 192.0.2.7`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 1 || days > 3650 {
				return usage(cmd, "--days is %d: it must be 1 to 3650", days)
			}
			if err := hostagent.MakeCerts(hostagent.CertsRequest{Dir: dir, Hosts: hosts, Valid: time.Duration(days) * 24 * time.Hour}); err != nil {
				return err
			}
			at := func(name string) string { return filepath.Join(dir, name) }
			fmt.Printf("made %s\n", strings.Join([]string{at(hostagent.CAFile), at(hostagent.ServerFile), at(hostagent.ClientFile)}, ", "))
			fmt.Printf("pyro host serve --listen 0.0.0.0:8933 --tls-ca %s --tls-cert %s --tls-key %s\n", at(hostagent.CAFile), at(hostagent.ServerFile), at(hostagent.ServerKeyFile))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "write the certificates to this `FOLDER`")
	f.StringArrayVar(&hosts, "host", []string{"localhost", "127.0.0.1"}, "`NAME` or address that clients use for the host agent (repeatable)")
	f.IntVar(&days, "days", 90, "the certificates are valid for `N` days, and the CA for ten times as long")
	return cmd
}
