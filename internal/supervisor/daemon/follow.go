package daemon

import (
	"context"
	"errors"
	"os"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// followChunk is the largest number of bytes of one read from a log. It limits the memory that a
// slow follower needs.
const followChunk = 64 << 10

// FollowService sends the output of a service until the service ends. It does not count as an
// operation: neither a pause nor the end of the machine waits for a follower.
func (s *server) FollowService(ctx context.Context, req *connect.Request[supervisorv1.FollowServiceRequest], stream *connect.ServerStream[supervisorv1.FollowServiceResponse]) error {
	name, lines := req.Msg.Name, int(req.Msg.Lines)
	if lines < 0 {
		return fault.New(fault.Invalid, "follow service", fault.Printable(name), "the number of lines is negative")
	}
	if err := s.daemon.released(ctx); err != nil {
		return err
	}
	v, ok := s.daemon.findService(name)
	if !ok {
		return notRunning(name)
	}
	logs, err := v.follow(ctx, lines)
	if err != nil {
		return err
	}
	defer logs.close()
	for {
		out, errs := logs[0].Changed(), logs[1].Changed()
		ended := v.hasEnded() // read before the logs: if it is true, the logs are complete
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
	return fault.New(fault.NotFound, "follow service", fault.Printable(name[:min(len(name), 80)]), "it is not running")
}

// followed are the followers of the two logs of a service.
type followed [2]*program.Follower

// follow opens followers of both logs, which start at the last lines.
func (v *service) follow(ctx context.Context, lines int) (f followed, err error) {
	select {
	case <-v.opened:
	case <-v.done: // the logs might have failed to open
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
	if errors.Is(err, os.ErrClosed) { // the service has ended: the caller reads its record, which must contain the end
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

// send sends new output, at most one chunk of each log. It reports whether there was new output.
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

// endOf returns how a service ended. If the record has no end, the service was paused with its
// workspace.
func (v *service) endOf() *supervisorv1.ServiceEnd {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.record.EndedAt.IsZero() {
		return &supervisorv1.ServiceEnd{Paused: true}
	}
	r := v.record.Result
	return &supervisorv1.ServiceEnd{
		EndedUnixNanos: v.record.EndedAt.UnixNano(), Exit: r.Exit.Encode(), Stopped: r.Stopped, Broken: r.Broken, Failed: r.Failed,
	}
}
