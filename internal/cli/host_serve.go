package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostagent"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// hostServe is what "pyro host serve" is told.
type hostServe struct {
	listen, metrics, tokenFile, network, environment, logLevel string
	tls                                                        hostagent.TLSFiles
	limits                                                     hostagent.Limits
}

func newHostServe() *cobra.Command {
	var s hostServe
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve this host's machines to a control plane",
		Long: `Serve this host's machines to a control plane, as the host agent of docs/host.md: gRPC, gRPC-Web
and Connect on one port. With --tls-ca, --tls-cert and --tls-key clients show a certificate of
that CA; "pyro host certs" makes a set. Without them it serves on a loopback address alone, to
clients who show a bearer token: that in PYRO_HOST_TOKEN or --token-file, or one that is made and
printed once.

Sandboxes go on when it ends, however it ends, and are there when it is started again. What
destroys them are calls: DestroySandbox, Terminate, and those that make templates of them.`,
		Example: `  pyro host serve --listen 127.0.0.1:8933 --token-file ~/.config/pyro/host-token
  pyro host serve --listen 0.0.0.0:8933 --tls-ca ca.pem --tls-cert server.pem --tls-key server-key.pem`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:8933", "on this `ADDRESS:PORT`; port 0 takes one that is free")
	f.StringVar(&s.tls.CA, "tls-ca", "", "the CA that signs the certificates of clients, `FILE`")
	f.StringVar(&s.tls.Cert, "tls-cert", "", "this host's certificate, `FILE`")
	f.StringVar(&s.tls.Key, "tls-key", "", "its key, `FILE`")
	f.StringVar(&s.tokenFile, "token-file", "", "without TLS: the bearer token is what this `PATH` holds")
	f.StringVar(&s.metrics, "metrics-listen", "", "serve /metrics and /healthz plainly on this loopback `ADDRESS:PORT`, too")
	f.StringVar(&s.environment, "environment", hostagent.DefaultEnvironment, "what the template minimal is, `ENVIRONMENT`")
	f.StringVar(&s.network, "network-policy", string(pyro.NetworkEgress), "of sandboxes: off or `egress`")
	completeFlag(cmd, "network-policy", []string{string(pyro.NetworkOff), string(pyro.NetworkEgress)})
	f.IntVar(&s.limits.MemoryMB, "memory-mb", hostMemoryMB(), "what all sandboxes may have together, `MB`; 0: no limit")
	f.IntVar(&s.limits.VCPUs, "vcpus", 16*runtime.NumCPU(), "processors that all sandboxes may have together, `N`; 0: no limit")
	f.IntVar(&s.limits.DiskMB, "disk-mb", 0, "disk that all sandboxes may have together, `MB`; 0: no limit")
	f.IntVar(&s.limits.DiskFreeMB, "disk-free-mb", 1024, "what has to be free of the host's disk for another sandbox, `MB`")
	for _, name := range []string{"memory-mb", "vcpus"} { // what depends on the host is no part of the documentation
		f.Lookup(name).DefValue = "of the host"
	}
	f.StringVar(&s.logLevel, "log-level", "info", "what is logged, on stderr: debug, `info`, warn or error")
	completeFlag(cmd, "log-level", []string{"debug", "info", "warn", "error"})
	return cmd
}

// hostMemoryMB is nine tenths of what the host has.
func hostMemoryMB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20 / 10 * 9)
}

func (s *hostServe) run(cmd *cobra.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return usage(cmd, "--log-level %q is none of debug, info, warn and error", s.logLevel)
	}
	if !slices.Contains([]string{string(pyro.NetworkOff), string(pyro.NetworkEgress)}, s.network) {
		return usage(cmd, "--network-policy is %q: it must be off or egress", s.network)
	}
	isolation := pyro.Isolation(cmp.Or(os.Getenv("PYRO_ISOLATION"), string(pyro.IsolationAuto)))
	if !slices.Contains(pyro.Isolations, isolation) {
		return usage(cmd, "PYRO_ISOLATION is %q, which is no isolation", isolation)
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
	s.limits.Folder = d.Host()
	workspaces, release := hostagent.OpenWorkspaces(d, machine.Isolation(isolation), s.network)
	defer release()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	agent, err := hostagent.Open(ctx, hostagent.Options{Folder: d.Host(), Machines: workspaces, Limits: s.limits, Environment: s.environment, Log: log})
	if err != nil {
		return err
	}
	defer agent.Close()
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
	log.Info("host agent serves", "version", pyro.Version(), "address", serving.Listener.Addr().String(), "tls", serving.TLS != nil)
	debug.SetGCPercent(50) // it has little, and what goes through it leaves much behind
	err = agent.Serve(ctx, serving)
	log.Info("host agent ends")
	return err
}

// serving opens what it is served on. made: the token was made.
func (s *hostServe) serving(cmd *cobra.Command) (at hostagent.Serving, made bool, err error) {
	named := 0
	for _, file := range []string{s.tls.CA, s.tls.Cert, s.tls.Key} {
		if file != "" {
			named++
		}
	}
	switch {
	case named == 3:
		if s.tokenFile != "" {
			return at, false, usage(cmd, "--token-file is for serving without TLS: with it clients show certificates")
		}
		at.TLS, err = s.tls.Config()
	case named > 0:
		return at, false, usage(cmd, "--tls-ca, --tls-cert and --tls-key go together")
	default:
		if !loopback(s.listen) {
			return at, false, fault.Newf(fault.Invalid, "--listen %q is no loopback address with a port: without TLS the token would be seen on a network", s.listen).
				WithHint("pyro host certs, and --tls-ca, --tls-cert and --tls-key")
		}
		at.Token, made, err = bearerTokenOf(hostTokenVariable, s.tokenFile)
	}
	if err != nil {
		return at, false, err
	}
	if s.metrics != "" && !loopback(s.metrics) {
		return at, false, fault.Newf(fault.Invalid, "--metrics-listen %q is no loopback address with a port", s.metrics).WithHint("--metrics-listen 127.0.0.1:8934")
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

// hostTokenVariable is the environment variable that the token may be in.
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
		Short: "Make the certificates with which a host agent is served",
		Long: `Make a set of certificates for "pyro host serve": a CA, and signed by it one of the host agent
and one of a client. Each has its key beside it. Nothing that is there is written over.`,
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
	f.StringVar(&dir, "dir", ".", "write them to this `FOLDER`")
	f.StringArrayVar(&hosts, "host", []string{"localhost", "127.0.0.1"}, "by which clients know the host agent, `NAME` or address; can be said again")
	f.IntVar(&days, "days", 90, "that those of host agent and client are valid, `N`; the CA's is ten times as long")
	return cmd
}
