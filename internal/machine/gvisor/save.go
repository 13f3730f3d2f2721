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

// savedFiles are the files of a saved machine: the state of its kernel, the positions of its memory
// pages, and the pages themselves. The sentry sends them in this order.
var savedFiles = [...]string{"state", "index", "pages"}

// maxState is the maximum size of a sentry's state without pages, in bytes. The usual size is some
// hundred KiB, and more for each open file of the machine.
const maxState = 1 << 30

// recoverTimeout is the maximum time to resume a machine after a failed save.
const recoverTimeout = 30 * time.Second

// Save makes the paused sentry send its state, and writes the state to files. The sentry gets no
// open files of the host. Otherwise a hostile program could change the saved state later.
func (s *sandbox) Save(ctx context.Context, dir string) error {
	return fault.Wrap(s.locked(ctx, func(ctx context.Context) error { return s.saveTo(ctx, dir) }), "save the machine", dir)
}

func (s *sandbox) saveTo(ctx context.Context, dir string) error {
	paused := s.pauseState.paused
	err := s.pause(ctx)
	if err == nil {
		err = s.writeFiles(ctx, dir)
	}
	if err == nil {
		return nil
	}
	if !paused {
		err = errors.Join(err, s.recover(ctx))
	}
	for _, name := range append(savedFiles[:], record.Name) {
		if gone := os.Remove(filepath.Join(dir, name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// recover resumes a machine after a failed save. If the machine can't be resumed, recover ends it,
// because it would hang forever.
func (s *sandbox) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), recoverTimeout, errors.New("gVisor does not answer"))
	defer cancel()
	err := s.resume(ctx)
	if err != nil {
		s.fail(fault.New(fault.Unavailable, "resume the machine after a failed save", "", "%w", err))
	}
	return err
}

// writeFiles writes all files of a saved machine. It writes the record last.
func (s *sandbox) writeFiles(ctx context.Context, dir string) error {
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

// receive makes the sentry send its state as one stream per file. It writes each stream to its file
// and flushes the files.
func (s *sandbox) receive(ctx context.Context, files []*os.File) ([]record.Sums, error) {
	limits := []int64{maxState, maxState, s.description.Shape.memory() + layerSize + sentryMemory}
	sums, failed := make([]record.Sums, len(files)), make([]error, len(files))
	var near []net.Conn
	var far []*os.File
	var storing sync.WaitGroup
	end := func() { // stops all reads and writes
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
			n.Close() // after an error, the sentry must not block on a write
			if failed[i] == nil {
				failed[i] = files[i].Sync()
			}
		})
	}
	err := s.ask(ctx, "save", "saved", far...)
	for _, f := range far {
		f.Close() // after this, the streams end when the sentry closes them
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
	// If a write failed, the sentry's error is only a consequence.
	for _, failed := range failed {
		if failed != nil && !errors.Is(failed, net.ErrClosed) && ctx.Err() == nil {
			return nil, failed
		}
	}
	return sums, err
}

// sendBuffer is the number of bytes that the sentry can send before pyro reads them.
const sendBuffer = 1 << 20

// setBuffer enlarges the send buffer of a socket. If the host does not allow that, the save is only
// slower.
func setBuffer(f *os.File) {
	if unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
		unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	}
}

// flush flushes the file system of a volume.
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
