// Package ptymcp serves terminals of this host as MCP tools. It has the same names, arguments,
// defaults, results and environment variables as pty-mcp.
//
// A server stores no state of sessions itself: all of it is in the folders of the sessions (see
// package session). So a server can crash, and several servers can run at the same time. Each tool
// makes these checks in this order:
//   - The session exists.
//   - The caller is its owner.
//   - Its scope allows the tool.
//   - No other client has claimed it.
//
// Then the tool checks its arguments.
package ptymcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Server is an MCP server for terminals.
type Server struct {
	config   Config
	sessions *session.Manager
	tokens   confirm.Tokens
	began    time.Time
	mcp      *mcp.Server
	stop     context.CancelFunc
	stopped  chan struct{}

	mu     sync.Mutex
	limits Limits // changed by set_limits
	cwd    string // changed by set_default_cwd
}

const instructions = "Terminals of the user's computer. pty_spawn starts a command on a new terminal and returns its session_id. Pass the same owner in all calls. " +
	"Type with pty_write: \"\\n\" in data is Enter, and keys types keys such as up and ctrl-c. Read with pty_read_until or pty_read_quiescent. pty_screen shows the screen of a " +
	"full-screen program. pty_close ends the session. Call confirm_dangerous_command before a dangerous command."

// New returns a server for the sessions in the folder root. program returns the path of a program
// that can run as a session process. Close stops the server, but no session.
func New(c Config, root string, program func() (string, error), version string) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		config: c, sessions: &session.Manager{Root: root, Program: program, Grace: c.Grace}, tokens: confirm.Tokens{Dir: filepath.Join(root, ".confirmations"), TTL: c.ConfirmTTL},
		began: time.Now(), stop: stop, stopped: make(chan struct{}), limits: c.Limits,
	}
	s.mcp = mcp.NewServer("pty-mcp", version, instructions, s.tools())
	s.mcp.AddResources(s.resources()...)
	go s.collect(ctx)
	return s
}

// Open returns a server for the sessions of the current user. Its settings come from the
// environment variables. It logs to standard error.
func Open(version string) (*Server, error) {
	c, err := FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	d, err := dirs.Default()
	if err != nil {
		return nil, err
	}
	slog.SetDefault(c.Logger(os.Stderr))
	return New(c, d.Sessions(), os.Executable, version), nil
}

// Tune tunes this process for a server with a single client. The process then uses one thread,
// because passing work between threads takes longer than the work. It also collects garbage less
// often. The variables GOMAXPROCS, GOGC and GOMEMLIMIT override this.
func Tune() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(32 << 20) // above this limit, garbage is collected as usual
	}
}

// Run serves one client on a pair of streams: see [mcp.Server.ServeStdio].
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.mcp.ServeStdio(ctx, in, out)
}

// Handler serves clients over HTTP. Clients must send the token.
func (s *Server) Handler(token secret.Value) http.Handler { return s.mcp.Handler(token) }

// Close disconnects all clients. Sessions continue.
func (s *Server) Close() error {
	s.mcp.Close()
	s.stop()
	<-s.stopped
	s.sessions.CloseConnections()
	return nil
}

// collect removes old sessions periodically while the server runs.
func (s *Server) collect(ctx context.Context) {
	defer close(s.stopped)
	tick := time.NewTicker(s.config.GCInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := errors.Join(s.sessions.Collect(now), s.forget(maxEnded)); err != nil {
				slog.Warn("collect sessions", "error", err)
			}
		}
	}
}

// maxEnded is the maximum number of ended sessions that are kept. The output of each occupies disk
// space.
const maxEnded = 200

// forget removes ended sessions, except for the most recently ended ones.
func (s *Server) forget(most int) error {
	all, err := s.sessions.List()
	ended := slices.DeleteFunc(all, func(info session.Info) bool { return info.Running() })
	slices.SortFunc(ended, func(a, b session.Info) int { return b.EndedAt.Compare(a.EndedAt) })
	for _, info := range ended[min(len(ended), most):] {
		err = errors.Join(err, info.Folder.Remove())
	}
	return err
}

// currentLimits returns the current limits and the default working folder; empty: not set.
func (s *Server) currentLimits() (Limits, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits, s.cwd
}
