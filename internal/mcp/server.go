package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// Server serves tools and resources. Per client, it stores only the keys that Remember adds. All
// persistent state is in workspaces and sessions. Each call names the ones that it uses.
type Server struct {
	tools     []Tool
	sdk       *sdk.Server
	questions questions
	quiet     time.Duration // see quietInterval
	patience  time.Duration // socket.FinishTimeout; shorter in tests

	mu   sync.Mutex
	keys map[*sdk.ServerSession]map[string]bool // see Remember
}

// NewServer returns a server. It announces name and version to clients. The instructions explain to
// an agent how to use the tools together.
func NewServer(name, version, instructions string, tools []Tool) *Server {
	s := &Server{tools: tools, quiet: quietInterval, patience: socket.FinishTimeout, sdk: sdk.NewServer(&sdk.Implementation{Name: name, Version: version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler),
		//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Logging: &sdk.LoggingCapabilities{}},
	})}
	s.sdk.AddReceivingMiddleware(withCodes, withLevels)
	for _, t := range tools {
		s.sdk.AddTool(t.Definition(), func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return t.handle(context.WithValue(ctx, connectionKey{}, connection{s, r.Session}), r, s)
		})
	}
	return s
}

// Tools returns the tools in the order of the list that NewServer got.
func (s *Server) Tools() []Tool { return s.tools }

// Call calls a tool as a client would, but within this process. The result is JSON with at most
// MaxResult bytes. The function report receives progress and can be nil.
func (s *Server) Call(ctx context.Context, name string, args json.RawMessage, report func(string)) (json.RawMessage, error) {
	if report == nil {
		report = func(string) {}
	}
	for _, t := range s.tools {
		if t.Name == name {
			result, err := t.answer(ctx, args, report)
			return result, s.hinted(err)
		}
	}
	return nil, fault.New(fault.NotFound, "call tool", name[:min(len(name), 80)], "there is no such tool")
}

// hinted returns the error with a hint that names tools of this server instead of commands.
func (s *Server) hinted(err error) error {
	hint := fault.HintFor(err, s.say)
	if hint == fault.HintOf(err) {
		return err
	}
	return &fault.Error{Err: err, Hint: hint}
}

// say describes an action in words for an agent.
func (s *Server) say(a fault.Action) string {
	text := "call " + a.Tool
	if a.With != "" {
		text += " with " + a.With
	}
	if !slices.ContainsFunc(s.tools, func(t Tool) bool { return t.Name == a.Tool }) {
		text += " (this server does not offer it: ask the user)"
	}
	return text
}

// ServeStdio serves one client on a pair of streams. When the input ends, it finishes the calls in
// progress, for at most socket.FinishTimeout. When the client no longer reads, or ctx is done, it
// cancels them. Workspaces are not affected.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	from, done := nonblocking(in, out)
	defer done()
	defer in.Close()
	client := newStdio(from, out, s.patience)
	// The SDK would wait for running calls. The method disconnect ends them.
	stop := context.AfterFunc(ctx, client.disconnect)
	defer stop()
	err := s.sdk.Run(context.WithoutCancel(ctx), client)
	if ctx.Err() != nil || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil // the client disconnected before it received its answer
	}
	return err
}

// Close closes all sessions.
func (s *Server) Close() {
	for session := range s.sdk.Sessions() {
		session.Close()
	}
}

// withCodes adds JSON-RPC codes to errors from the SDK, such as the error for a second initialize.
func withCodes(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		return result, coded(err, jsonrpc.CodeInvalidRequest)
	}
}

// levels are the log levels that the protocol defines.
//
//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
var levels = []sdk.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// withLevels refuses unknown log levels. The SDK would treat unknown levels as debug.
func withLevels(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
		if p, ok := r.GetParams().(*sdk.SetLoggingLevelParams); ok && !slices.Contains(levels, p.Level) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown log level %.40q", p.Level)}
		}
		return next(ctx, method, r)
	}
}
