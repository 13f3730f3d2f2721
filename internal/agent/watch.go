package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

const (
	// watchInterval is the value of Server.watchInterval.
	watchInterval = 500 * time.Millisecond
	maxFolders    = 64 // folders of a watch
	maxWatches    = 32 // watches at a time; each needs one of the 128 inotify instances of the machine
)

// watchMask selects the events of a folder. It does not have IN_ONESHOT: gVisor removes such a
// watch while the file system is locked, and then its programs hang.
const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// WatchFolders reports changes of folders until the client leaves.
func (s *Server) WatchFolders(ctx context.Context, req *connect.Request[agentv1.WatchFoldersRequest], to *connect.ServerStream[agentv1.WatchFoldersResponse]) error {
	if n := len(req.Msg.Paths); n < 1 || n > maxFolders {
		return invalid(fmt.Sprintf("a watch must have 1 to %d folders", maxFolders))
	}
	var paths []string
	for _, p := range req.Msg.Paths {
		if err := volume.CheckPath(string(p)); err != nil {
			return invalid(err.Error())
		}
		paths = append(paths, path.Clean(s.env.Path(string(p))))
	}
	if s.watches.Add(1) > maxWatches {
		s.watches.Add(-1)
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("more than %d clients watch folders", maxWatches))
	}
	defer s.watches.Add(-1)
	return s.watchFolders(ctx, paths, func(changed uint64) error {
		return to.Send(&agentv1.WatchFoldersResponse{Changed: changed})
	})
}

// watchFolders calls send with 0 when it watches the folders, and then with a bit for each folder
// that has changed.
func (s *Server) watchFolders(ctx context.Context, paths []string, send func(changed uint64) error) error {
	w, err := s.newFolderWatch(paths)
	if err != nil {
		return watchError(err)
	}
	defer w.events.Close()
	defer context.AfterFunc(ctx, func() { w.events.SetReadDeadline(time.Unix(1, 0)) })()
	if _, err := w.arm(w.all()); err != nil {
		return watchError(err)
	}
	for changed := uint64(0); ; {
		if err := send(changed); err != nil {
			return err
		}
		next := time.Now().Add(s.watchInterval)
		for changed = 0; changed == 0; {
			fired, err := w.collect(ctx, next)
			if err == nil {
				changed, err = w.arm(fired)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				return watchError(err)
			}
			next = time.Now().Add(s.watchInterval)
		}
	}
}

// watchError returns an RPC error. The kernel limits how much can be watched.
func watchError(err error) error {
	for _, limit := range []error{unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.ENOMEM} {
		if errors.Is(err, limit) {
			return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the machine can't watch more folders: %w", err))
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		return connect.NewError(connect.CodeUnimplemented, err)
	}
	return pathError(err)
}

// folderWatch watches folders. Sets of folders are bit masks.
type folderWatch struct {
	server *Server
	paths  []string
	events *os.File         // the inotify instance
	fd     int              // of events
	armed  map[int32]uint64 // the folders for which a watch of the kernel stands
	known  []identity       // of each folder when it was last watched
}

// identity identifies a folder; the zero value means that it does not exist.
type identity struct{ device, inode uint64 }

func (s *Server) newFolderWatch(paths []string) (*folderWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	return &folderWatch{server: s, paths: paths, events: os.NewFile(uintptr(fd), "inotify"), fd: fd, armed: map[int32]uint64{}, known: make([]identity, len(paths))}, nil
}

func (w *folderWatch) all() uint64 { return 1<<len(w.paths) - 1 }

// collect waits for an event, and for further events until the given time. It returns the folders
// with events, which are no longer watched: a busy folder causes no more events.
func (w *folderWatch) collect(ctx context.Context, until time.Time) (fired uint64, err error) {
	for {
		deadline := until
		if fired == 0 {
			deadline = time.Time{}
		}
		w.events.SetReadDeadline(deadline)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		more, err := w.read()
		if fired |= more; errors.Is(err, os.ErrDeadlineExceeded) {
			return fired, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// read waits for events, and returns their folders.
func (w *folderWatch) read() (fired uint64, err error) {
	var buffer [16 << 10]byte
	n, err := w.events.Read(buffer[:])
	for b := buffer[:max(n, 0)]; len(b) >= unix.SizeofInotifyEvent; {
		watch, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		if folders, ok := w.armed[watch]; ok {
			fired |= folders
			delete(w.armed, watch)
			unix.InotifyRmWatch(w.fd, uint32(watch)) // fails if the kernel has removed it with its folder
		}
		if mask&unix.IN_Q_OVERFLOW != 0 {
			fired = w.all()
		}
		b = b[min(len(b), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:]))):]
	}
	return fired, err
}

// arm watches folders. It returns those that exist, or have existed until now. If another folder is
// at a path now, arm also watches the folders below it again: when a folder is moved, the folders
// below it have no event.
func (w *folderWatch) arm(folders uint64) (changed uint64, err error) {
	root, err := w.server.env.Root()
	if err != nil {
		return 0, err
	}
	for done := uint64(0); folders != 0; folders &^= done {
		i := bits.TrailingZeros64(folders)
		now, err := w.armOne(root, i)
		if err != nil {
			return 0, err
		}
		before := w.known[i]
		w.known[i] = now
		done |= 1 << i
		if now != before {
			for j, p := range w.paths {
				if strings.HasPrefix(p, w.paths[i]+"/") {
					folders |= 1 << j
				}
			}
		}
		if now != (identity{}) || before != (identity{}) {
			changed |= 1 << i
		}
	}
	return changed, nil
}

// armAttempts limits how often armOne tries to watch a folder that other programs create and remove
// meanwhile.
const armAttempts = 8

// armOne watches folder i. If it does not exist, armOne watches the nearest folder above it, which
// has an event when the missing folder is created.
func (w *folderWatch) armOne(root, i int) (identity, error) {
	for range armAttempts {
		at, below := w.paths[i], ""
		of, err := w.add(root, at, 1<<i)
		for isMissing(err) && at != "/" {
			at, below = path.Dir(at), at
			of, err = w.add(root, at, 1<<i)
		}
		if err != nil || below == "" {
			return of, err
		}
		// If a program created the folder below before the watch was added, there was no event.
		created, err := volume.OpenIn(root, below, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			break
		}
		created.Close()
	}
	return identity{}, nil
}

// add watches a folder for the folders that bit stands for.
func (w *folderWatch) add(root int, folder string, bit uint64) (of identity, err error) {
	f, err := volume.OpenIn(root, folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return of, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return of, err
	}
	watch, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), watchMask)
	if err != nil {
		return of, &os.PathError{Op: "watch", Path: folder, Err: err}
	}
	w.armed[int32(watch)] |= bit
	return identity{uint64(st.Dev), st.Ino}, nil
}

// isMissing reports whether an error means that a path names no folder that can be watched.
func isMissing(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
