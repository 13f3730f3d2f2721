// Package ptymcp gives agents terminals of this host as tools: those of pty-mcp, by its names, arguments, defaults, results and environment variables.
//
// It keeps nothing of a session: what a session is, printed, and who has it, is in its folder (package session), so that a server may end, be killed, and be two.
// Each tool is decided on in one order: the session is there, its owner is who asks, its scope allows the tool, the lease is who asks's, and then what the tool
// itself demands.
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

// Server is an MCP server of terminals.
type Server struct {
	config   Config
	sessions *session.Manager
	tokens   confirm.Tokens
	began    time.Time
	mcp      *mcp.Server
	stop     context.CancelFunc
	stopped  chan struct{}

	mu     sync.Mutex
	limits Limits // what set_limits changes
	cwd    string // what set_default_cwd sets
}

const instructions = "Terminals of the user's computer. pty_spawn starts a command on one and gives its session_id; give the same owner to all calls. Type with pty_write (\"\\n\" is Enter, keys " +
	"are for others), read with pty_read_until or pty_read_quiescent, see what a full-screen program shows with pty_screen, and end with pty_close. A dangerous command needs " +
	"confirm_dangerous_command first."

// New makes a server of the sessions below root, a folder. program gives what can be their keeper. Close ends the server, and no session.
func New(c Config, root string, program func() (string, error), version string) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		config: c, sessions: &session.Manager{Root: root, Program: program, Grace: c.Grace}, tokens: confirm.Tokens{Dir: filepath.Join(root, ".confirmations"), TTL: c.ConfirmTTL},
		began: time.Now(), stop: stop, stopped: make(chan struct{}), limits: c.Limits,
	}
	s.mcp = mcp.NewServer("pty-mcp", version, instructions, s.tools())
	s.mcp.Offer(s.resources()...)
	go s.collect(ctx)
	return s
}

// Open makes the server that the environment variables ask for, of the sessions of the present user. It logs to the standard error.
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

// Tune has this process, which must be for a server of one client alone, do one thing at a time, and collect its garbage seldom: each answer is waited for, and to hand
// work from thread to thread takes longer than the work. What the environment says of that (GOMAXPROCS, GOGC, GOMEMLIMIT) holds.
func Tune() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(32 << 20) // from which on it is collected as often as it takes
	}
}

// Run serves one client on a pair of streams, until it goes or ctx ends.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.mcp.ServeStdio(ctx, in, out)
}

// Handler serves any number of clients over HTTP who show the token.
func (s *Server) Handler(token secret.Value) http.Handler { return s.mcp.Handler(token) }

// Close ends the sessions of clients. Those on terminals go on.
func (s *Server) Close() error {
	s.mcp.Close()
	s.stop()
	<-s.stopped
	s.sessions.Rest()
	return nil
}

// collect removes what ended long ago, as long as the server lives.
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

// maxEnded is how many sessions that have ended are kept: each has the space of its output on the disk.
const maxEnded = 200

// forget removes sessions that have ended, but for the last ones.
func (s *Server) forget(most int) error {
	all, err := s.sessions.List()
	ended := slices.DeleteFunc(all, func(info session.Info) bool { return info.Running() })
	slices.SortFunc(ended, func(a, b session.Info) int { return b.EndedAt.Compare(a.EndedAt) })
	for _, info := range ended[min(len(ended), most):] {
		err = errors.Join(err, info.Folder.Remove())
	}
	return err
}

// present are the limits that hold now, and the default working folder, "" where there is none.
func (s *Server) present() (Limits, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits, s.cwd
}
