package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Person is a terminal that a person uses, and its settings for Attach.
type Person struct {
	Stdin     io.Reader // input; Attach does not wait for a blocked read when it returns
	Stdout    io.Writer // output
	Size      Size      // size of the person's terminal; Attach sets it on the session
	Resize    <-chan Size
	DetachKey byte // key that leaves the session; it is not typed into the session
}

const (
	attachReplay = 64 << 10 // maximum size of the old output that Attach prints first, in bytes
	attachChunk  = 1 << 20  // size of each read
	attachWait   = 20 * time.Second
)

var errDetached = errors.New("left")

// Attach connects a person's terminal to a session until the session ends, the person leaves, or
// ctx ends. Attach reports whether the person left. It first prints the latest output again. It
// does not move the cursor of pty_read.
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
	if errors.Is(err, errDetached) {
		return true, nil
	}
	return false, err
}

func (i Info) resize(ctx context.Context, s Size) error {
	_, err := i.Ask(ctx, Request{Op: OpResize, Cols: s.Cols, Rows: s.Rows})
	if fault.KindOf(err) == fault.Precondition {
		return nil // follow reports the end of the session
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

// pass types the person's input into the session until the person presses p.DetachKey.
func (i Info) pass(ctx context.Context, cancel context.CancelCauseFunc, p Person) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.Stdin.Read(buffer)
		if ctx.Err() != nil {
			return
		}
		typed, leaves := buffer[:n], false
		if at := bytes.IndexByte(typed, p.DetachKey); at >= 0 {
			typed, leaves = typed[:at], true
		}
		if len(typed) > 0 {
			if _, failed := i.Ask(ctx, Request{Op: OpInput, Data: typed, Anyway: true}); failed != nil && fault.KindOf(failed) != fault.Exhausted && fault.KindOf(failed) != fault.Precondition {
				cancel(failed)
				return
			}
		}
		if leaves || err != nil {
			cancel(errDetached)
			return
		}
	}
}

// follow prints the output of the session until the session ends.
func (i Info) follow(ctx context.Context, log *program.SharedLog, to io.Writer) error {
	cursor := max(0, log.Len()-attachReplay)
	for first := true; ; first = false {
		p, err := log.Read(cursor, attachChunk)
		if err != nil {
			return err
		}
		data := p.Data
		if at := bytes.IndexByte(data, '\n'); first && p.From > 0 && at >= 0 {
			data = data[at+1:] // the first line is cut off at its start: skip it
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
			if !i.Folder.HasProcess() && log.Len() == cursor { // the session process was killed, so it can't mark the end of the log
				return nil
			}
		}
	}
}
