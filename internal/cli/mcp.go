package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/ptymcp"
)

func newMCP() *cobra.Command {
	cmd := subgroup("mcp", "Serve agents over the Model Context Protocol", newMCPServe())
	cmd.Long = `A program that runs agents, such as Claude Code or Cursor, starts "pyro mcp serve" and gives its
agents the tools. Start with --profile workspace-core: it has the tools for work on files.`
	return cmd
}

func newMCPServe() *cobra.Command {
	var profile, transport, listen, tokenFile string
	var source projectSource
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve pyro's operations as tools",
		Long: `Serve pyro's operations as MCP tools. These are the profiles:

  vm-run          one tool that runs single commands
  workspace-core  workspaces, files, patches, diffs and commands; the best choice for most agents
  workspace-full  everything; the default
  pty             terminals on this computer, which nothing isolates, as in pty-mcp

On stdio, pyro serves its parent process until the parent closes the input. It then finishes the
calls that it read, for up to an hour, while the parent reads the answers. With --transport http,
pyro serves any number of clients at /mcp of a loopback address. Clients must send a bearer token.
The token is in PYRO_MCP_TOKEN or --token-file; otherwise pyro makes one and prints it. Workspaces,
services and shells keep running after clients disconnect.

If a call to workspace_create has no seed_path, the workspace begins with a copy of the project. On
stdio the project is the git checkout in the current folder, unless it contains your home folder.
With --transport http there is a project only if --project-path names it.`,
		Example: `  pyro mcp serve --profile workspace-core
  pyro mcp serve --profile workspace-core --project-path ~/src/calc
  pyro mcp serve --profile workspace-core --transport http --listen 127.0.0.1:8931`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := source.find(cmd, transport == "stdio" && operations.Profile(profile) != operations.ProfileVMRun && profile != profilePTY)
			if err != nil {
				return err
			}
			server, err := openServer(profile, folder)
			if err != nil {
				return err
			}
			defer server.Close()
			ctx, signals := endOnSignals(cmd.Context())
			defer signals.stop()
			switch transport {
			case "stdio":
				if tokenFile != "" || cmd.Flags().Changed("listen") {
					return usage(cmd, "--listen and --token-file are for --transport http")
				}
				if profile == profilePTY {
					ptymcp.Tune()
				}
				return server.Run(ctx, os.Stdin, os.Stdout)
			case "http":
				return serveHTTP(ctx, server, listen, tokenFile)
			}
			return usage(cmd, "--transport is %q: it must be stdio or http", transport)
		},
	}
	f := cmd.Flags()
	f.StringVar(&profile, "profile", string(operations.ProfileWorkspaceFull), "`PROFILE` of the tools: vm-run, workspace-core, workspace-full or pty")
	completeFlag(cmd, "profile", append(slices.Clone(operations.Profiles), profilePTY))
	f.StringVar(&transport, "transport", "stdio", "`TRANSPORT`: stdio or http")
	f.StringVar(&listen, "listen", "127.0.0.1:0", "with http: listen on this loopback `ADDRESS:PORT`; port 0: a free port")
	f.StringVar(&tokenFile, "token-file", "", "with http: read the bearer token from the file at this `PATH`")
	source.flags(f)
	return cmd
}

// profilePTY is the profile that serves terminals on the host. Package operations does not define
// this profile.
const profilePTY = "pty"

// server is an MCP server for one profile.
type server interface {
	Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Handler(token pyro.SecretValue) http.Handler
	Close() error
}

// openServer opens the server of a profile. folder is the path of the project, or empty.
func openServer(profile, folder string) (server, error) {
	if profile == profilePTY {
		if folder != "" {
			return nil, fault.Newf(fault.Invalid, "--project-path is for workspaces: the profile pty has none")
		}
		return ptymcp.Open(pyro.Version())
	}
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return nil, err
	}
	s, err := operations.NewServer(p, operations.Profile(profile), folder)
	if err != nil {
		p.Close()
		return nil, err
	}
	return workspaceServer{s, p}, nil
}

// workspaceServer is an MCP server that also closes its Pyro.
type workspaceServer struct {
	*operations.Server
	pyro *pyro.Pyro
}

func (s workspaceServer) Close() error { return errors.Join(s.Server.Close(), s.pyro.Close()) }

// profileFlag adds --profile to a command.
func profileFlag(cmd *cobra.Command, profile *string, byDefault operations.Profile) {
	cmd.Flags().StringVar(profile, "profile", string(byDefault), "`PROFILE` of the tools: vm-run, workspace-core or workspace-full")
	completeFlag(cmd, "profile", operations.Profiles)
}

// serveHTTP serves clients until ctx is done.
func serveHTTP(ctx context.Context, server server, listen, tokenFile string) error {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() {
		return fault.Newf(fault.Invalid, "--listen %q is not a loopback address with a port: without TLS, the network could see the token", listen).
			WithHint("--listen 127.0.0.1:8931, and for other hosts a TLS proxy or ssh -L")
	}
	token, made, err := bearerToken(tokenFile)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return fault.Wrap(err, "listen on", listen)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.Handler(token))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	fmt.Fprintf(os.Stderr, "serving at http://%s/mcp\n", l.Addr())
	if made {
		fmt.Fprintf(os.Stderr, "bearer token, shown this once: %s\n", token.Reveal())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	// Calls stop when ctx is done. Shutdown also waits for streams that clients leave open, so it
	// gets only one second.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.Shutdown(patient) != nil {
		s.Close()
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(err, "serve on", listen)
	}
	return nil
}

// tokenVariable is the name of the environment variable that contains the token.
const tokenVariable = "PYRO_MCP_TOKEN"

// bearerToken returns the token that clients must send. made reports whether the token is new.
func bearerToken(file string) (token pyro.SecretValue, made bool, err error) {
	return bearerTokenOf(tokenVariable, file)
}

// bearerTokenOf returns the token from a file or an environment variable. If neither is set, it
// creates a new token. made reports whether the token is new.
func bearerTokenOf(variable, file string) (token pyro.SecretValue, made bool, err error) {
	text := os.Getenv(variable)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return token, false, fault.Wrap(err, "read the token from", file)
		}
		text = strings.TrimSpace(string(b))
	}
	if text == "" && file == "" {
		var random [24]byte
		rand.Read(random[:])
		return pyro.NewSecretValue(base64.RawURLEncoding.EncodeToString(random[:])), true, nil
	}
	if len(text) < 16 || len(text) > 4096 || strings.ContainsAny(text, " \t\r\n") {
		return token, false, fault.Newf(fault.Invalid, "the bearer token must have 16 to 4096 characters and no white space")
	}
	return pyro.NewSecretValue(text), false, nil
}
