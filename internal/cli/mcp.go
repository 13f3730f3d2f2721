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
	"github.com/pyro-mcp/pyro/internal/ptymcp"
)

func newMCP() *cobra.Command {
	cmd := subgroup("mcp", "Serve agents over the Model Context Protocol", newMCPServe())
	cmd.Long = `An agent's host, such as Claude Code or Cursor, starts "pyro mcp serve" and gives the agent its
tools. Begin with --profile workspace-core: it has what an agent needs to work on files.`
	return cmd
}

func newMCPServe() *cobra.Command {
	var profile, transport, listen, tokenFile string
	var source projectSource
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve pyro's operations as tools",
		Long: `Serve pyro's operations as tools. Most hosts do best with --profile workspace-core: an agent can
make workspaces of your folders, read, write, patch and diff files, run commands, and start
over. workspace-full, the default, has everything; vm-run one tool, for one command at a time.
pty is another server: terminals of this computer, which nothing isolates, by the tools and the
PTY_MCP_ variables of pty-mcp.

On stdio it serves whoever started it, until they go. With --transport http it serves any
number of clients, at /mcp of an address of this host, who show a bearer token: that in
PYRO_MCP_TOKEN or --token-file, or one that is made and printed once. Workspaces, with their
services and shells, go on when clients go.

The project is the folder that workspace_create fills workspaces with when its seed_path is left
out. On stdio that is the git checkout in which pyro was started, but not one that is your home
folder, or has it in it. With --transport http there is none unless --project-path names it: clients
come from any folder then, and the one in which the server was started may be none of theirs.`,
		Example: `  pyro mcp serve --profile workspace-core
  pyro mcp serve --profile workspace-core --project-path ~/src/calc
  pyro mcp serve --profile workspace-core --transport http --listen 127.0.0.1:8931`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := source.find(cmd, transport == "stdio" && pyro.Profile(profile) != pyro.ProfileVMRun && profile != profilePTY)
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
			return usage(cmd, "--transport %q is neither stdio nor http", transport)
		},
	}
	f := cmd.Flags()
	f.StringVar(&profile, "profile", string(pyro.ProfileWorkspaceFull), "which tools: vm-run, `workspace-core`, workspace-full or pty")
	completeFlag(cmd, "profile", append(slices.Clone(pyro.Profiles), profilePTY))
	f.StringVar(&transport, "transport", "stdio", "how: `stdio` or http")
	f.StringVar(&listen, "listen", "127.0.0.1:0", "with http: on this loopback address, `ADDRESS:PORT`; port 0 takes one that is free")
	f.StringVar(&tokenFile, "token-file", "", "with http: the bearer token is what this `PATH` holds")
	source.flags(f)
	return cmd
}

// profilePTY is the profile of terminals of the host. It is none of package pyro's, which has none.
const profilePTY = "pty"

// server is what serves clients.
type server interface {
	Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Handler(token pyro.SecretValue) http.Handler
	Close() error
}

// openServer makes the one of a profile. folder is the project, or "".
func openServer(profile, folder string) (server, error) {
	if profile == profilePTY {
		if folder != "" {
			return nil, fault.Newf(fault.Invalid, "--project-path is for workspaces: the profile pty has none")
		}
		return ptymcp.Open(pyro.Version())
	}
	s, err := pyro.CreateServer(pyro.Profile(profile), pyro.WithProject(folder))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// profileFlag has a command take a profile.
func profileFlag(cmd *cobra.Command, profile *string, byDefault pyro.Profile) {
	cmd.Flags().StringVar(profile, "profile", string(byDefault), "which tools: vm-run, `workspace-core` or workspace-full")
	completeFlag(cmd, "profile", pyro.Profiles)
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, server server, listen, tokenFile string) error {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() {
		return fault.Newf(fault.Invalid, "--listen %q is no loopback address with a port: without TLS the token would be seen on a network", listen).
			WithHint("--listen 127.0.0.1:8931, and to reach it from elsewhere a proxy with TLS, or ssh -L")
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
	// What is served has ended with ctx; the streams that clients hold open end now.
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

// tokenVariable is the environment variable that the token may be in.
const tokenVariable = "PYRO_MCP_TOKEN"

// bearerToken gives the token that clients have to show, and tells whether it was made.
func bearerToken(file string) (token pyro.SecretValue, made bool, err error) {
	return bearerTokenOf(tokenVariable, file)
}

// bearerTokenOf gives one that is in a variable, or in a file.
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
		return token, false, fault.Newf(fault.Invalid, "the bearer token must be 16 to 4096 characters without blanks")
	}
	return pyro.NewSecretValue(text), false, nil
}
