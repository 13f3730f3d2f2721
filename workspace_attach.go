package pyro

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// AttachShellRequest says how to take a shell.
type AttachShellRequest struct {
	WorkspaceID string
	ShellID     string

	Stdin     io.Reader // what is typed; a reader that blocks is not waited for at the end
	Stdout    io.Writer // what the shell prints, as it is
	TTY       *TTY      // the terminal that both are of: the shell's gets its size. May be nil
	DetachKey byte      // that leaves the shell, and is not typed into it; 0: none
}

const (
	attachReplay = 64 << 10 // bytes that were printed before, to begin with
	attachChunk  = 1 << 20  // bytes at once: one who is late catches up with what is kept in a few reads
	attachWait   = 20 * time.Second
	atEnd        = 1 << 62 // a cursor that is taken for that of the end
)

// AttachShell lends a person's terminal to a shell until it ends, the detach key is typed, or ctx ends. Others may read it and write to it meanwhile. What it printed
// last is printed again first. The shell that is given tells whether it has ended.
func (p *Pyro) AttachShell(ctx context.Context, req AttachShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	shells, err := p.workspaces.Shells(ctx, req.WorkspaceID)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer shells.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := attachment{shells, req, ctx, cancel}
	cursor, err := a.begin()
	if err != nil {
		return nil, because(ctx, err)
	}
	go a.pass()
	last, err := a.follow(cursor)
	if context.Cause(ctx) == errDetached {
		out, failed := shells.ReadShell(context.WithoutCancel(ctx), remote.ShellRead{ID: req.ShellID, Cursor: atEnd, Chars: 1})
		last, err = out.Shell, failed
	}
	switch {
	case context.Cause(ctx) == errDetached && err != nil:
		return nil, err
	case err != nil:
		return nil, because(ctx, err)
	}
	r := newShell(req.WorkspaceID, shells.Spec, last)
	return &r, nil
}

var errDetached = fault.Newf(fault.Canceled, "detached")

// attachment is one call of AttachShell.
type attachment struct {
	*workspace.Shells
	req    AttachShellRequest
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// begin has the shell take the terminal's size, prints what was printed last, and gives the cursor after it.
func (a *attachment) begin() (cursor int64, err error) {
	if tty := a.req.TTY; tty != nil {
		if _, err := a.ResizeShell(a.ctx, a.req.ShellID, tty.Size.Cols, tty.Size.Rows); err != nil && fault.KindOf(err) != fault.Precondition {
			return 0, err
		}
		go followSize(a.ctx, tty.Resize, func(ctx context.Context, cols, rows int) error {
			_, err := a.ResizeShell(ctx, a.req.ShellID, cols, rows)
			return err
		})
	}
	end, err := a.ReadShell(a.ctx, remote.ShellRead{ID: a.req.ShellID, Cursor: atEnd, Chars: 1})
	if err != nil {
		return 0, err
	}
	cursor = max(0, end.Next-attachReplay)
	recent, err := a.ReadShell(a.ctx, remote.ShellRead{ID: a.req.ShellID, Cursor: cursor, Chars: attachReplay, Screen: true})
	if err != nil {
		return 0, err
	}
	data := recent.Data
	if i := bytes.IndexByte(data, '\n'); recent.From > 0 && len(recent.Before) == 0 && i >= 0 {
		data = data[i+1:] // a line that was cut
	}
	_, err = a.req.Stdout.Write(append(recent.Before, data...))
	return recent.Next, err
}

// pass types into the shell what is typed here, up to the detach key.
func (a *attachment) pass() {
	if a.req.Stdin == nil {
		return
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := a.req.Stdin.Read(buffer)
		if a.ctx.Err() != nil {
			return
		}
		typed, detach := buffer[:n], false
		if i := bytes.IndexByte(typed, a.req.DetachKey); a.req.DetachKey != 0 && i >= 0 {
			typed, detach = typed[:i], true
		}
		if len(typed) > 0 {
			if _, failed := a.WriteShell(a.ctx, a.req.ShellID, typed); failed != nil && fault.KindOf(failed) != fault.Exhausted {
				a.cancel(failed)
				return
			}
		}
		if detach || err != nil {
			a.cancel(errDetached)
			return
		}
	}
}

// follow prints what the shell prints, to its end.
func (a *attachment) follow(cursor int64) (remote.Shell, error) {
	for {
		out, err := a.ReadShell(a.ctx, remote.ShellRead{ID: a.req.ShellID, Cursor: cursor, Chars: attachChunk, Wait: attachWait, Raw: true})
		if err != nil {
			return remote.Shell{}, err
		}
		if _, err := a.req.Stdout.Write(out.Data); err != nil {
			return remote.Shell{}, err
		}
		cursor = out.Next
		if !out.EndedAt.IsZero() && !out.More {
			return out.Shell, nil
		}
	}
}
