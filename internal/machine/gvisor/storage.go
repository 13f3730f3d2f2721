package gvisor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

var _ machine.RootKeeper = (*sandbox)(nil)

// maxKept bounds what a machine can have pyro write of its root: its layer, and what there is to say of each file.
const maxKept = layerSize + layerSize/4

// KeepRoot writes what the machine has changed of its environment to a file, which it replaces once all of it is on the disk. The form is that of
// runsc/layer. The machine stands still meanwhile. It has to have been started with storage.
func (s *sandbox) KeepRoot(ctx context.Context, path string) error {
	return fault.Wrap(s.keepRoot(ctx, path), "keep root", s.id)
}

func (s *sandbox) keepRoot(ctx context.Context, path string) error {
	if s.storage == nil {
		return fault.Newf(fault.Precondition, "the machine was started without storage")
	}
	// A file that was left is in nobody's way: whoever writes to this path has the machine to themselves.
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = s.writeRoot(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
		return err
	}
	return durable.Sync(filepath.Dir(path))
}

// writeRoot has the sentry write the root to a stream, and writes to a file what comes: a sentry that was taken over has no file of the host's to change later.
func (s *sandbox) writeRoot(ctx context.Context, to *os.File) error {
	near, far, err := machine.NewStream()
	if err != nil {
		return err
	}
	defer near.Close()
	written := make(chan error, 1)
	go func() {
		n, err := io.Copy(to, io.LimitReader(near, maxKept+1))
		if err == nil && n > maxKept {
			err = fault.Newf(fault.Exhausted, "what the machine has changed is more than %d GiB", maxKept>>30)
		}
		near.Close() // where that failed, the sentry waits for nobody
		written <- err
	}()
	err = s.ask(ctx, "keep", "kept", far)
	far.Close()
	if err != nil {
		near.Close()
	}
	// An error of writing is the reason why the sentry could not go on.
	if failed := <-written; failed != nil && !errors.Is(failed, net.ErrClosed) {
		return failed
	}
	return err
}

// ask has the machine do something. Where it has ended, the error says why.
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
	select { // the connection has broken: the machine ends
	case <-s.done:
	case <-time.After(endPatience):
	}
	if reason := s.Err(); reason != nil {
		return reason
	}
	return fault.Newf(fault.Precondition, "the machine has ended")
}
