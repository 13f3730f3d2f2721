package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostagent"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// host starts the host agent in this process. It serves a Unix socket that only this user can open.
func (s *serveCommand) host(ctx context.Context, d dirs.Dirs) (h control.Host, end func(), err error) {
	agent, closeAgent, err := s.open(ctx, d)
	if err != nil {
		return h, nil, err
	}
	key, err := hostKey(d) // no other process can create the key now, because this process has the host agent's lock
	if err != nil {
		closeAgent()
		return h, nil, err
	}
	os.Remove(filepath.Join(d.Host(), "control.sock")) // left by a killed process, because this process has the host agent's lock
	listener, err := socket.Listen(d.Host(), "control.sock")
	if err != nil {
		closeAgent()
		return h, nil, err
	}
	token := secret.New(rand.Text())
	stop := inBackground(context.WithoutCancel(ctx), func(ctx context.Context) {
		if err := agent.Serve(ctx, hostagent.ServeOptions{Listener: listener, Token: token}); err != nil {
			s.log.Error("the host agent failed", "error", err)
		}
	})
	name := s.hostName
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			name = "localhost"
		}
	}
	dial := func(context.Context) (net.Conn, error) { return socket.Dial(d.Host(), "control.sock") }
	client, disconnect := control.NewClient(dial, token)
	return control.Host{Key: key, Name: name, Client: client}, func() {
		disconnect()
		stop()
		closeAgent()
	}, nil
}

func hostKeyFile(d dirs.Dirs) string { return filepath.Join(d.Host(), "key") }

// hostKey returns the random text that identifies a state folder in the database. The first call
// creates it.
func hostKey(d dirs.Dirs) (string, error) {
	text, err := os.ReadFile(hostKeyFile(d))
	key := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && key == "":
		key = rand.Text()
		return key, fault.Wrap(durable.Replace(hostKeyFile(d), []byte(key+"\n")), "write the key of this host to", hostKeyFile(d))
	case err != nil:
		return "", fault.Wrap(err, "read the key of this host from", hostKeyFile(d))
	}
	return key, nil
}

// sharedName adds a hint to the error for a name that another host has.
func sharedName(err error, d dirs.Dirs) error {
	if fault.KindOf(err) != fault.Exists {
		return err
	}
	return &fault.Error{Err: err, Kind: fault.Exists, Hint: "set --host-name to another name; if the state folder of the other host is lost, and this host replaces it, write the key to " + hostKeyFile(d)}
}
