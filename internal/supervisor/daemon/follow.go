package daemon

import (
	"context"
	"errors"
	"os"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// followChunk bounds what is read of one stream at once, and so what a slow follower holds.
const followChunk = 64 << 10

// FollowService sends what a service prints, to its end. It does not count as an operation: neither a
// pause nor the end of the machine waits for a follower.
func (s *server) FollowService(ctx context.Context, req *connect.Request[supervisorv1.FollowServiceRequest], stream *connect.ServerStream[supervisorv1.FollowServiceResponse]) error {
	name, lines := req.Msg.Name, int(req.Msg.Lines)
	if lines < 0 {
		return fault.New(fault.Invalid, "follow service", fault.Printable(name), "the number of lines is negative")
	}
	if err := s.daemon.released(ctx); err != nil {
		return err
	}
	v := s.daemon.services.find(name)
	if v == nil {
		return notRunning(name)
	}
	logs, err := v.follow(ctx, lines)
	if err != nil {
		return err
	}
	defer logs.close()
	for {
		out, errs := logs[0].Changed(), logs[1].Changed()
		ended := v.hasEnded() // before the last look at the logs
		sent, err := logs.send(stream)
		switch {
		case err != nil:
			return err
		case sent:
			continue
		case ended:
			return stream.Send(&supervisorv1.FollowServiceResponse{End: v.endOf()})
		}
		select {
		case <-out:
		case <-errs:
		case <-v.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func notRunning(name string) error {
	return fault.New(fault.NotFound, "follow service", fault.Printable(name[:min(len(name), 80)]), "it does not run")
}

// followed are the two logs of a service.
type followed [2]*transcript.Follower

// follow begins with the last lines of both logs.
func (v *service) follow(ctx context.Context, lines int) (f followed, err error) {
	select {
	case <-v.opened:
	case <-v.done: // perhaps because its logs could not be opened
		select {
		case <-v.opened:
		default:
			return f, notRunning(v.record.Name)
		}
	case <-ctx.Done():
		return f, context.Cause(ctx)
	}
	for i, log := range v.logs {
		if f[i], err = log.Follow(lines); err != nil {
			f.close()
			break
		}
	}
	if errors.Is(err, os.ErrClosed) { // the caller looks into the records: they have to know of the end
		select {
		case <-v.done:
			err = notRunning(v.record.Name)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return f, err
}

func (f followed) close() {
	for _, log := range f {
		if log != nil {
			log.Close()
		}
	}
}

// send sends what is new, a piece of each log at most, and tells whether there was anything.
func (f followed) send(to *connect.ServerStream[supervisorv1.FollowServiceResponse]) (sent bool, err error) {
	var m supervisorv1.FollowServiceResponse
	if m.Stdout, m.StdoutDropped, err = f[0].Next(followChunk); err != nil {
		return false, err
	}
	if m.Stderr, m.StderrDropped, err = f[1].Next(followChunk); err != nil {
		return false, err
	}
	if len(m.Stdout)+len(m.Stderr) == 0 {
		return false, nil
	}
	return true, to.Send(&m)
}

func (v *service) hasEnded() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// endOf tells how a service ended. Without an end it was paused with its workspace.
func (v *service) endOf() *supervisorv1.ServiceEnd {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.record.EndedAt.IsZero() {
		return &supervisorv1.ServiceEnd{Paused: true}
	}
	r := v.record.Result
	return &supervisorv1.ServiceEnd{
		EndedUnixNanos: v.record.EndedAt.UnixNano(), Stopped: r.Stopped, Broken: r.Broken, Failed: r.Failed,
		Exit: v.of.exitOf(client.Exit{Code: r.ExitCode, Signal: r.Signal, Message: r.NotRun, OutOfMemory: r.OutOfMemory}),
	}
}
