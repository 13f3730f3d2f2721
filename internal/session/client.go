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

// Ask asks the keeper of a session something. Precondition where there is none any more.
func (i Info) Ask(ctx context.Context, req Request) (Answer, error) {
	c := i.conns.take(i.ID)
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
			i.conns.keep(i.ID, c)
			if a.Error != nil {
				err = a.Error.Err()
			}
			return a, err
		case before && !sent && ctx.Err() == nil: // whoever kept the session then does not any more
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

// dial connects to the keeper.
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

// ask asks on a connection. Where it was not sent, nobody has heard it.
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

// gone is the answer for a keeper that is no more.
func (i Info) gone() (Answer, error) {
	if state, _, err := i.Folder.State(); err == nil && state.Running() && i.Backend == Tmux {
		return Answer{}, fault.New(fault.Precondition, "use session", i.ID, "its keeper was killed, its tmux pane goes on").WithHint("pty_recover")
	}
	return Answer{Ended: true}, fault.New(fault.Precondition, "use session", i.ID, "it has ended")
}

// Wait waits as a request says. That the session has ended meanwhile is no error.
func (i Info) Wait(ctx context.Context, req Request) error {
	req.Op = OpWait
	a, err := i.Ask(ctx, req)
	if a.Ended && ctx.Err() == nil {
		return nil
	}
	return err
}

// End ends a session, on behalf of a client or of none: its programs are asked to end, and
// killed if they have not after three seconds. Idempotent.
func (i Info) End(ctx context.Context, client string) error {
	if a, err := i.Ask(ctx, Request{Op: OpEnd, Client: client}); err != nil && !a.Ended {
		return err
	}
	return nil
}
