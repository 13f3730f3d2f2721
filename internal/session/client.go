package session

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// Ask sends a request to the session process and returns the answer. Precondition: the session has
// ended.
func (i Info) Ask(ctx context.Context, req Request) (Answer, error) {
	c := i.conns.get(i.ID)
	before := c != nil
	for {
		if c == nil {
			var err error
			switch c, err = i.dial(); {
			case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
				return i.gone()
			case err != nil:
				return Answer{}, err
			}
		}
		a, sent, err := c.ask(ctx, req)
		switch {
		case err == nil:
			i.conns.put(i.ID, c)
			if a.Error != nil {
				err = a.Error.Err()
			}
			return a, err
		case before && !sent && ctx.Err() == nil: // the session process at the other end of an idle connection may have ended
			c.Close()
			c, before = nil, false
			continue
		}
		c.Close()
		switch {
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
			return i.gone()
		}
		return a, fault.Wrap(err, "use session", i.ID)
	}
}

// dial connects to the session process.
func (i Info) dial() (*Conn, error) {
	raw, err := socket.Dial(string(i.Folder), SocketName)
	if err != nil {
		return nil, err
	}
	if !socket.Allowed(raw) {
		raw.Close()
		return nil, fault.New(fault.Permission, "use session", i.ID, "its socket is another user's")
	}
	return NewConn(raw), nil
}

// ask sends a request on a connection. If sent is false, the session process did not receive it.
func (c *Conn) ask(ctx context.Context, req Request) (a Answer, sent bool, err error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	if err = c.Send(req); err == nil {
		sent = true
		err = c.Receive(&a)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	return a, sent, err
}

// gone returns the answer for a session that has no session process. If another client has closed
// the session, there is no state.
func (i Info) gone() (Answer, error) {
	if state, ok, err := i.Folder.State(); err == nil && ok && state.Running() && i.Backend == Tmux {
		return Answer{}, fault.New(fault.Precondition, "use session", i.ID, "its session process was killed; its tmux pane still runs").WithHint("pty_recover")
	}
	return Answer{Ended: true}, fault.New(fault.Precondition, "use session", i.ID, "it has ended")
}

// Wait waits as the request says. It returns nil if the session has ended.
func (i Info) Wait(ctx context.Context, req Request) error {
	req.Op = OpWait
	a, err := i.Ask(ctx, req)
	if a.Ended && ctx.Err() == nil {
		return nil
	}
	return err
}

// End ends a session. The name of the client can be empty. The session process asks the programs to
// end, and kills them after three seconds. End is idempotent.
func (i Info) End(ctx context.Context, client string) error {
	if a, err := i.Ask(ctx, Request{Op: OpEnd, Client: client}); err != nil && !a.Ended {
		return err
	}
	return nil
}
