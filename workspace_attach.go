package pyro

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// AttachShellRequest contains the parameters of [Pyro.AttachShell].
type AttachShellRequest struct {
	WorkspaceID string
	ShellID     string

	Stdin     io.Reader // the typed keys; AttachShell does not wait for a blocked Read when it returns.
	Stdout    io.Writer // the shell's output.
	TTY       *TTY      // the caller's terminal, which determines the size of the shell's terminal; can be nil.
	DetachKey byte      // the key that detaches, which is not sent to the shell; 0: none
}

const (
	attachReplay = 64 << 10 // bytes of earlier output to print again
	attachChunk  = 1 << 20  // bytes per read; large, so that a late reader catches up quickly
	attachWait   = 20 * time.Second
	atEnd        = 1 << 62 // a cursor that means the end
)

// AttachShell connects a person's terminal to a shell. It returns when the shell, the input or ctx
// ends, or when the person types the detach key. Other callers can use the shell at the same time.
// AttachShell first prints the last output again. The result says whether the shell has ended.
func (p *Pyro) AttachShell(ctx context.Context, req AttachShellRequest) (*Shell, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	shells, err := p.workspaces.Shells(ctx, req.WorkspaceID)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer shells.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := attachment{shells, req, ctx, cancel}
	cursor, err := a.begin()
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	go a.pass()
	last, err := a.follow(cursor)
	if context.Cause(ctx) == errDetached {
		out, failed := shells.ReadShell(context.WithoutCancel(ctx), workspace.ShellRead{ID: req.ShellID, Cursor: atEnd, Chars: 1})
		last, err = out.Shell, failed
	}
	switch {
	case context.Cause(ctx) == errDetached && err != nil:
		return nil, err
	case err != nil:
		return nil, causeOf(ctx, err)
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

// begin sets the size of the shell to the size of the caller's terminal and prints the last output.
// It returns the cursor after that output.
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
	end, err := a.ReadShell(a.ctx, workspace.ShellRead{ID: a.req.ShellID, Cursor: atEnd, Chars: 1})
	if err != nil {
		return 0, err
	}
	cursor = max(0, end.Next-attachReplay)
	recent, err := a.ReadShell(a.ctx, workspace.ShellRead{ID: a.req.ShellID, Cursor: cursor, Chars: attachReplay, Screen: true})
	if err != nil {
		return 0, err
	}
	data := recent.Data
	if i := bytes.IndexByte(data, '\n'); recent.From > 0 && len(recent.Before) == 0 && i >= 0 {
		data = data[i+1:] // skip a partial line
	}
	_, err = a.req.Stdout.Write(append(recent.Before, data...))
	return recent.Next, err
}

// pass sends the typed keys to the shell, until the input ends or the person types the detach key.
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
			if failed := a.TypeShell(a.ctx, a.req.ShellID, typed); failed != nil && fault.KindOf(failed) != fault.Exhausted {
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

// follow prints the output of the shell until it ends.
func (a *attachment) follow(cursor int64) (workspace.Shell, error) {
	for {
		out, err := a.ReadShell(a.ctx, workspace.ShellRead{ID: a.req.ShellID, Cursor: cursor, Chars: attachChunk, Wait: attachWait, Raw: true})
		if err != nil {
			return workspace.Shell{}, err
		}
		if _, err := a.req.Stdout.Write(out.Data); err != nil {
			return workspace.Shell{}, err
		}
		cursor = out.Next
		if !out.EndedAt.IsZero() && !out.More {
			return out.Shell, nil
		}
	}
}
