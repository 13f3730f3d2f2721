package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostagent"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/serve"
)

// serveCommand contains the flags of "pyro serve".
type serveCommand struct {
	hostAgent
	socket                         serveSocket
	oidc                           oidcFlags
	keyFile, database, metricsFile string
	hostName                       string
}

func newServe() *cobra.Command {
	var s serveCommand
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sandboxes of this host over HTTP",
		Long: `Serve sandboxes of this host over HTTP, to programs with an API key and to people with a web page.
docs/serve.md shows how to use it, and docs/api.md describes the API.

At the first start, pyro creates a team. If the file of --api-key-file does not exist, pyro creates
an API key and writes it to the file. The records are in a SQLite database in the state folder, or
in the PostgreSQL database of --database.

Sandboxes keep running when the server ends, even if it is killed. The next start finishes
interrupted requests.`,
		Example: `  pyro serve --api-key-file ~/.config/pyro/api-key
  curl -H "X-API-Key: $(cat ~/.config/pyro/api-key)" -H "Content-Type: application/json" -d '{"template": "debian:12"}' http://127.0.0.1:8080/v1/sandboxes`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.keyFile, "api-key-file", "", "create an API key and write it to the file at this `PATH`, if the file does not exist")
	f.StringVar(&s.database, "database", "", "`DATABASE`: the path of a SQLite file, or postgres://USER:PASSWORD@HOST:PORT/DATABASE; default control.db in the state folder")
	f.StringVar(&s.hostName, "host-name", "", "`NAME` of this host in the database; the default is the host name of the system")
	f.StringVar(&s.metricsFile, "metrics-token-file", "", "serve /metrics for clients with the bearer token in the file at this `PATH`; if the file does not exist, write a new token to it")
	s.socket.flags(cmd)
	s.oidc.flags(cmd)
	s.hostAgent.flags(cmd)
	s.limits = hostagent.Limits{MemoryMB: hostMemoryMB(), DiskFreeMB: 1024}
	return cmd
}

func (s *serveCommand) run(cmd *cobra.Command) error {
	if err := s.check(cmd); err != nil {
		return err
	}
	names, err := s.socket.names()
	if err != nil {
		return err
	}
	metrics, err := metricsToken(s.metricsFile)
	if err != nil {
		return err
	}
	oidc, err := s.oidc.config()
	if err != nil {
		return err
	}
	d, err := dirs.Default()
	if err != nil {
		return err
	}
	listening, err := s.socket.open(d, s.log)
	if err != nil {
		return err
	}
	defer listening.Close()
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	records, err := store.Open(ctx, cmp.Or(s.database, filepath.Join(d.State, "control.db")))
	if err != nil {
		return err
	}
	defer records.Close()
	host, end, err := s.host(ctx, d)
	if err != nil {
		return err
	}
	defer end()
	c, err := control.New(ctx, control.Options{Store: records, Hosts: []control.Host{host}, Log: s.log})
	if err != nil {
		return sharedName(err, d)
	}
	if err := c.SetUp(ctx, s.keyFile); err != nil {
		return err
	}
	if err := c.Reconcile(ctx); err != nil {
		s.log.Error("reconcile the records with the host", "error", err)
	}
	defer inBackground(ctx, c.Follow)()
	at := origin(listening, names)
	fmt.Printf("serving at %s\n", at)
	if s.keyFile != "" {
		fmt.Printf("API key in %s\n", s.keyFile)
	}
	if token, ok, err := c.OwnerLink(ctx); err != nil {
		return err
	} else if ok {
		fmt.Printf("log in at %s/login/%s (once, within an hour)\n", at, token.Reveal())
	}
	return serveAPI(ctx, listening, serve.New(serve.Options{Control: c, Log: s.log, Hosts: names, Metrics: metrics, OIDC: oidc}), s.log)
}

// metricsToken returns the token in a file, or writes a new one to it. Without a file, the token is
// empty.
func metricsToken(file string) (secret.Value, error) {
	if file == "" {
		return secret.Value{}, nil
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = durable.Replace(file, []byte(rand.Text()+"\n"))
		}
		if err != nil {
			return secret.Value{}, fault.Wrap(err, "write the token for metrics to", file)
		}
	}
	token, _, err := bearerTokenOf("", file)
	return token, err
}

// inBackground runs a function until the caller calls end. Then it cancels the function's context,
// and waits for the function.
func inBackground(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
