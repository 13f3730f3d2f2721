package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// Person is somebody at a terminal of their own.
type Person struct {
	Stdin  io.Reader // what they type; a reader that blocks is not waited for at the end
	Stdout io.Writer // what they see
	Size   Size      // of their terminal, which the session gets
	Resize <-chan Size
	Leave  byte // the key that leaves the session, and is not typed into it
}

const (
	attachReplay = 64 << 10 // bytes that were printed before, to begin with
	attachChunk  = 1 << 20  // characters at once
	attachWait   = 20 * time.Second
)

var errLeft = errors.New("left")

// Attach lends a person's terminal to a session until it ends, they leave, or ctx ends, and tells whether they left. What it printed last is printed again first. The
// cursor of those who read by turns stays where it is.
func (i Info) Attach(ctx context.Context, p Person) (left bool, err error) {
	log, err := i.Folder.Log(Output)
	if err != nil {
		return false, err
	}
	defer log.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if i.Running() {
		if err := i.resize(ctx, p.Size); err != nil {
			return false, err
		}
		go i.followSize(ctx, p.Resize)
		go i.pass(ctx, cancel, p)
	}
	err = i.follow(ctx, log, p.Stdout)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errLeft) {
		return true, nil
	}
	return false, err
}

func (i Info) resize(ctx context.Context, s Size) error {
	_, err := i.Ask(ctx, Request{Op: OpResize, Cols: s.Cols, Rows: s.Rows})
	if fault.KindOf(err) == fault.Precondition {
		return nil // it has ended: that is told otherwise
	}
	return err
}

func (i Info) followSize(ctx context.Context, sizes <-chan Size) {
	for {
		select {
		case s := <-sizes:
			i.resize(ctx, s)
		case <-ctx.Done():
			return
		}
	}
}

// pass types what the person types, up to the key that leaves.
func (i Info) pass(ctx context.Context, cancel context.CancelCauseFunc, p Person) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.Stdin.Read(buffer)
		if ctx.Err() != nil {
			return
		}
		typed, leaves := buffer[:n], false
		if at := bytes.IndexByte(typed, p.Leave); at >= 0 {
			typed, leaves = typed[:at], true
		}
		if len(typed) > 0 {
			if _, failed := i.Ask(ctx, Request{Op: OpInput, Data: typed}); failed != nil && fault.KindOf(failed) != fault.Exhausted && fault.KindOf(failed) != fault.Precondition {
				cancel(failed)
				return
			}
		}
		if leaves || err != nil {
			cancel(errLeft)
			return
		}
	}
}

// follow prints what the session prints, to its end.
func (i Info) follow(ctx context.Context, log *transcript.Shared, to io.Writer) error {
	cursor := max(0, log.Len()-attachReplay)
	for first := true; ; first = false {
		p, err := log.Read(cursor, attachChunk)
		if err != nil {
			return err
		}
		data := p.Data
		if at := bytes.IndexByte(data, '\n'); first && p.From > 0 && at >= 0 {
			data = data[at+1:] // a line that was cut
		}
		if _, err := to.Write(data); err != nil {
			return err
		}
		if cursor = p.Next; p.Ended {
			return nil
		}
		if !p.More {
			if err := i.Wait(ctx, Request{Cursor: cursor, Timeout: attachWait}); err != nil {
				return err
			}
			if !i.Folder.Kept() && log.Len() == cursor { // nobody will say that it has ended
				return nil
			}
		}
	}
}
