package gvisor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

var _ machine.RootSaver = (*sandbox)(nil)

// maxRootFile is the maximum size of the file of a machine's root, in bytes. The file contains the
// layer and the metadata of its files.
const maxRootFile = layerSize + layerSize/4

// SaveRoot writes the changes to the environment to a file, in the format of runsc/layer. It
// flushes the new file before it replaces the old one. The machine is paused during the call. It
// must have been started with storage.
func (s *sandbox) SaveRoot(ctx context.Context, path string) error {
	return fault.Wrap(s.saveRoot(ctx, path), "keep root", s.id)
}

func (s *sandbox) saveRoot(ctx context.Context, path string) error {
	if s.storage == nil {
		return fault.Newf(fault.Precondition, "the machine was started without storage")
	}
	return durable.Replacement{}.WriteFunc(path, func(f *os.File) error { return s.writeRoot(ctx, f, stallTimeout) })
}

// writeRoot makes the sentry send the root as a stream, and writes the stream to a file. The sentry
// gets no open files of the host. Otherwise a hostile program could change the saved root later. It
// fails if the sentry sends nothing for the duration stall.
func (s *sandbox) writeRoot(ctx context.Context, to *os.File, stall time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(stall, func() { stop(errStalled) })
	defer idle.Stop()
	near, far, err := machine.NewStream()
	if err != nil {
		return err
	}
	defer near.Close()
	written := make(chan error, 1)
	go func() {
		n, err := io.Copy(to, io.LimitReader(watched{near, idle, stall}, maxRootFile+1))
		if err == nil && n > maxRootFile {
			err = fault.Newf(fault.Exhausted, "the changes of the machine's root exceed %d GiB", maxRootFile>>30)
		}
		near.Close()      // after an error, the sentry must not block on a write
		idle.Reset(stall) // for the answer
		written <- err
	}()
	err = s.ask(ctx, "keep", "kept", far)
	far.Close()
	if err != nil {
		near.Close()
	}
	// If the write failed, the sentry's error is only a consequence.
	if failed := <-written; failed != nil && !errors.Is(failed, net.ErrClosed) {
		return failed
	}
	return err
}

// stallTimeout is how long the sentry can send no part of the root. A sentry that has just started
// sends nothing until it has loaded the root, which can be gigabytes.
const stallTimeout = 5 * time.Minute

var errStalled = fault.Newf(fault.Unavailable, "gVisor does not answer")

// watched stops the timer idle while no Read waits. So the time that the host needs to write does
// not count.
type watched struct {
	io.Reader
	idle  *time.Timer
	limit time.Duration
}

func (w watched) Read(b []byte) (int, error) {
	w.idle.Reset(w.limit)
	defer w.idle.Stop()
	return w.Reader.Read(b)
}

// ask sends a command. If the machine has ended, the error says so, and why if it ended by itself.
func (s *sandbox) ask(ctx context.Context, what, done string, files ...*os.File) error {
	err := s.control.ask(ctx, what, done, files...)
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		return &fault.Error{Kind: fault.Unavailable, Err: r, Hint: r.hint}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	select { // the connection is broken, so the machine is ending
	case <-s.done:
		if reason := s.Err(); reason != nil {
			return reason
		}
		return fault.Newf(fault.Precondition, "the machine has ended")
	case <-time.After(endTimeout):
		return fault.Newf(fault.Precondition, "the connection to the machine is lost: %w", err)
	}
}
