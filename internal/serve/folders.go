package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// maxFolders is the number of folders that a client can watch at a time.
const maxFolders = 64

// folders watches the folders of a sandbox that the client of a WebSocket asks for.
type folders struct {
	*socket
	host control.HostClient
	id   string        // of the sandbox
	runs chan struct{} // contains a token if the sandbox ran after the watch began

	stop context.CancelFunc // ends the watch; nil: there is none
	work sync.WaitGroup
}

// watch ends the previous watch, and watches other folders, which can be none.
func (f *folders) watch(paths []string) error {
	if len(paths) > maxFolders {
		return fault.Newf(fault.Invalid, "a frame names %d folders: the limit is %d", len(paths), maxFolders)
	}
	f.end()
	if len(paths) > 0 {
		ctx, stop := context.WithCancel(f.ctx)
		f.stop = stop
		f.work.Go(func() { f.keep(ctx, paths) })
	}
	return nil
}

func (f *folders) end() {
	if f.stop != nil {
		f.stop()
	}
	f.work.Wait()
}

// running records that the sandbox runs.
func (f *folders) running() {
	select {
	case f.runs <- struct{}{}:
	default:
	}
}

// keep watches folders until ctx is done. The watch ends with a pause of the sandbox. Then keep
// waits until the sandbox runs again.
func (f *folders) keep(ctx context.Context, paths []string) {
	for {
		select {
		case <-f.runs:
		default:
		}
		err := f.follow(ctx, paths)
		switch kind := fault.KindOf(err); {
		case ctx.Err() != nil || errors.Is(err, errGone):
			return
		case kind != fault.Unavailable && kind != fault.Precondition:
			f.report(err, false)
			return
		}
		select {
		case <-f.runs:
		case <-ctx.Done():
			return
		}
	}
}

// follow sends a frame for each changed folder, until the host ends the stream.
func (f *folders) follow(ctx context.Context, paths []string) error {
	stream, err := f.host.WatchFolders(ctx, connect.NewRequest(&hostv1.WatchFoldersRequest{SandboxId: f.id, Paths: paths}))
	if err != nil {
		return control.FromHost(err)
	}
	defer stream.Close()
	for stream.Receive() {
		changed := stream.Msg().Changed
		for i, path := range paths {
			if changed != 0 && changed>>i&1 == 0 {
				continue
			}
			if err := f.send(event{Type: "folder", Path: path}); err != nil {
				return err
			}
		}
	}
	return control.FromHost(cmp.Or(stream.Err(), io.ErrUnexpectedEOF))
}
