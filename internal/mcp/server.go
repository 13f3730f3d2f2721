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
)

// Server serves tools and resources. It keeps nothing of its clients but what Remember notes: what is to persist is in workspaces and sessions, which each call names.
type Server struct {
	tools     []Tool
	sdk       *sdk.Server
	questions questions
	quiet     time.Duration // see quietInterval

	mu    sync.Mutex
	words map[*sdk.ServerSession]map[string]bool // see Remember
}

// NewServer makes one, by the name that clients are told. instructions tell an agent how the tools belong together.
func NewServer(name, version, instructions string, tools []Tool) *Server {
	s := &Server{tools: tools, quiet: quietInterval, sdk: sdk.NewServer(&sdk.Implementation{Name: name, Version: version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler),
		//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Logging: &sdk.LoggingCapabilities{}},
	})}
	s.sdk.AddReceivingMiddleware(withCodes, withLevels)
	for _, t := range tools {
		s.sdk.AddTool(t.Announced(), func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return t.handle(context.WithValue(ctx, connectionKey{}, connection{s, r.Session}), r, s)
		})
	}
	return s
}

// Tools are those that it serves, in their order.
func (s *Server) Tools() []Tool { return s.tools }

// Call calls a tool as a client would, but in this process. The result is JSON, of at most MaxResult bytes. report, which may be nil, hears of what is made meanwhile.
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

// hinted is an error whose hint names the tools of this server where others get commands.
func (s *Server) hinted(err error) error {
	hint := fault.HintFor(err, s.say)
	if hint == fault.HintOf(err) {
		return err
	}
	return &fault.Error{Err: err, Hint: hint}
}

// say tells an agent what to do.
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

// ServeStdio serves one client on a pair of streams, and returns when it has gone or ctx ends. What a call was doing then is cancelled; workspaces stay.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	from, done := unthreaded(in, out)
	defer done()
	defer in.Close()
	client := newStdio(from, out)
	// The SDK would wait for the calls. They end when their client seems to have gone.
	stop := context.AfterFunc(ctx, client.leave)
	defer stop()
	err := s.sdk.Run(context.WithoutCancel(ctx), client)
	if ctx.Err() != nil || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil // the client went before it had its answer
	}
	return err
}

// Close ends the sessions of clients.
func (s *Server) Close() {
	for session := range s.sdk.Sessions() {
		session.Close()
	}
}

// withCodes gives errors of the SDK a JSON-RPC code, such as that of a second initialize.
func withCodes(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		return result, coded(err, jsonrpc.CodeInvalidRequest)
	}
}

// levels are those of log messages, as the protocol names them.
//
//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
var levels = []sdk.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// withLevels refuses a log level that does not exist. The SDK would take it for debug.
func withLevels(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		//lint:ignore SA1019 clients of protocols before 2026-07-28 use it
		if p, ok := r.GetParams().(*sdk.SetLoggingLevelParams); ok && !slices.Contains(levels, p.Level) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no log level %.40q", p.Level)}
		}
		return next(ctx, method, r)
	}
}
