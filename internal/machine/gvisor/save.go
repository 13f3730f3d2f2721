package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/record"
)

var _ machine.Saver = (*sandbox)(nil)

// savedFiles are those of a saved machine: the state of its kernel, where each page of its memory belongs, and the pages. They are what the sentry sends, in this order.
var savedFiles = [...]string{"state", "index", "pages"}

// maxState bounds what a sentry may send beside pages, which is some hundred KiB and more for each thing that the machine has open.
const maxState = 1 << 30

// recoverPatience is how long a machine that could not be saved may take until it goes on.
const recoverPatience = 30 * time.Second

// Save has the sentry send the machine, which stands still, and writes down what comes: a sentry that was taken over has no file of the host's to change later.
func (s *sandbox) Save(ctx context.Context, dir string) error {
	return fault.Wrap(s.inTurn(ctx, func(ctx context.Context) error { return s.saveTo(ctx, dir) }), "save the machine", dir)
}

func (s *sandbox) saveTo(ctx context.Context, dir string) error {
	still := s.standing.still
	err := s.pause(ctx)
	if err == nil {
		err = s.writeDown(ctx, dir)
	}
	if err == nil {
		return nil
	}
	if !still {
		err = errors.Join(err, s.recover(ctx))
	}
	for _, name := range append(savedFiles[:], record.Name) {
		if gone := os.Remove(filepath.Join(dir, name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// recover has a machine that could not be saved go on. One that can't ends: nobody could tell it from one that hangs.
func (s *sandbox) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), recoverPatience, errors.New("gVisor does not answer"))
	defer cancel()
	err := s.resume(ctx)
	if err != nil {
		s.fail(fault.New(fault.Unavailable, "have the machine go on after it could not be saved", "", "%w", err))
	}
	return err
}

// writeDown writes all that belongs to a saved machine, the record of it last.
func (s *sandbox) writeDown(ctx context.Context, dir string) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, name := range savedFiles {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	d := s.description
	var err error
	if d.Files, err = s.receive(ctx, files); err != nil {
		return err
	}
	if s.storage != nil {
		if err := flush(s.storage.Folder); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return record.Write(dir, savedForm, d)
}

// receive has the sentry send the machine, and writes each stream to its file, which it flushes.
func (s *sandbox) receive(ctx context.Context, files []*os.File) ([]record.Sums, error) {
	limits := []int64{maxState, maxState, s.description.Shape.memory() + layerSize + sentryMemory}
	sums, failed := make([]record.Sums, len(files)), make([]error, len(files))
	var near []net.Conn
	var far []*os.File
	var storing sync.WaitGroup
	end := func() { // whoever still reads or writes comes to its end
		for i := range near {
			near[i].Close()
			far[i].Close()
		}
		storing.Wait()
	}
	defer end()
	for i := range files {
		n, f, err := machine.NewStream()
		if err != nil {
			return nil, err
		}
		near, far = append(near, n), append(far, f)
		setBuffer(f)
		storing.Go(func() {
			sums[i], failed[i] = record.Store(files[i], n, limits[i])
			n.Close() // where that failed, the sentry waits for nobody
			if failed[i] == nil {
				failed[i] = files[i].Sync()
			}
		})
	}
	err := s.ask(ctx, "save", "saved", far...)
	for _, f := range far {
		f.Close() // so that the end of the sentry is that of the streams
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() {
			for _, n := range near {
				n.Close()
			}
		})
		storing.Wait()
		if !stop() {
			err = context.Cause(ctx)
		}
	}
	end()
	// An error of writing is the reason why the sentry could not go on.
	for _, failed := range failed {
		if failed != nil && !errors.Is(failed, net.ErrClosed) && ctx.Err() == nil {
			return nil, failed
		}
	}
	return sums, err
}

// sendBuffer is how much the sentry can be ahead of pyro.
const sendBuffer = 1 << 20

// setBuffer lets so much be on its way. It is an optimisation: where the host allows less, it takes a little longer.
func setBuffer(f *os.File) {
	if unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
		unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	}
}

// flush has the host's file system store what was written to a volume.
func flush(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
}
