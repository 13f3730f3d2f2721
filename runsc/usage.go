package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// usage counts what the files of a volume take on the host, when it is asked, by looking at all of
// them. The sentry asks seldom: see quota.
type usage struct {
	limit int64 // bytes that they may take

	shrunk atomic.Bool // something may have become free since the last measure

	mu    sync.Mutex
	last  int64
	taken time.Time     // when last was complete
	took  time.Duration // how long it took
}

const (
	// usedBlock is the unit in which a volume's size is told.
	usedBlock = 4096
	// restFactor is how many times longer than a measure took the next one is put off, so that programs
	// that write to a nearly full volume leave the gofer time for others.
	restFactor = 4
	// blindSpot is after how many numbers that are no descriptors none is looked for any more.
	blindSpot = 4096
)

// now measures the volume, in bytes. A full one of which nothing was removed is still full.
func (u *usage) now() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last > u.limit-usedBlock && !u.shrunk.Load() {
		return u.last, nil
	}
	time.Sleep(time.Until(u.taken.Add(restFactor * u.took)))
	u.shrunk.Store(false)
	began := time.Now()
	w := walk{links: map[uint64]bool{}}
	if err := w.folder(unix.AT_FDCWD, "/"); err != nil {
		return 0, err
	}
	w.removed()
	u.last, u.taken, u.took = w.bytes, time.Now(), time.Since(began)
	return u.last, nil
}

// walk is a measure in the making.
type walk struct {
	bytes int64
	links map[uint64]bool // inodes that were counted of those with several names, or none
}

// folder counts a folder and all that is in it. What goes away meanwhile is left out.
func (w *walk) folder(parent int, name string) error {
	descriptors.RLock()
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	descriptors.RUnlock()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		descriptors.RLock()
		unix.Close(fd)
		descriptors.RUnlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			entry := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := unix.ByteSliceToString(rest[unsafe.Offsetof(entry.Name):entry.Reclen])
			rest = rest[entry.Reclen:]
			if name == "." || name == ".." {
				continue
			}
			if err := w.entry(fd, name); err != nil {
				return err
			}
		}
	}
}

func (w *walk) entry(folder int, name string) error {
	var stat unix.Stat_t
	if unix.Fstatat(folder, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		w.add(&stat)
		return w.folder(folder, name)
	}
	if stat.Nlink == 1 || w.first(stat.Ino) {
		w.add(&stat)
	}
	return nil
}

func (w *walk) first(inode uint64) bool {
	if w.links[inode] {
		return false
	}
	w.links[inode] = true
	return true
}

func (w *walk) add(stat *unix.Stat_t) {
	w.bytes += stat.Blocks * 512
}

// removed counts files that have no name any more, but are open.
func (w *walk) removed() {
	for fd, missing := 3, 0; missing < blindSpot; fd++ {
		var stat unix.Stat_t
		if unix.Fstatat(fd, "", &stat, unix.AT_EMPTY_PATH) != nil { // fstat is not in the filter
			missing++
			continue
		}
		missing = 0
		if stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink == 0 && w.first(stat.Ino) {
			w.add(&stat)
		}
	}
}

// frees is an answer after which something may have become free.
func (u *usage) frees(answer lisafs.RPCHandler) lisafs.RPCHandler {
	return func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
		defer u.shrunk.Store(true)
		return answer(c, comm, asked)
	}
}

// serve has the answers tell the volume's size as that of its file system.
func (u *usage) serve(answers []lisafs.RPCHandler) {
	answers[lisafs.FStatFS] = u.statFS
	for _, id := range []lisafs.MID{lisafs.Close, lisafs.SetStat, lisafs.FAllocate, lisafs.UnlinkAt, lisafs.RenameAt, lisafs.RenameAt2} {
		answers[id] = u.frees(answers[id])
	}
}

// statFS is gVisor's answer, with the limit as the size of the file system. What the host's has left
// bounds it too.
func (u *usage) statFS(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	answered, err := lisafs.FStatFSHandler(c, comm, asked)
	if err != nil {
		return answered, err
	}
	var host lisafs.StatFS
	if _, ok := host.CheckedUnmarshal(comm.PayloadBuf(answered)); !ok {
		return 0, unix.EIO
	}
	used, err := u.now()
	if err != nil {
		return 0, err
	}
	free := max(0, min(u.limit-used, int64(host.BlocksAvailable)*host.BlockSize)) / usedBlock
	host.BlockSize, host.Blocks = usedBlock, uint64(u.limit/usedBlock)
	host.BlocksFree, host.BlocksAvailable = uint64(free), uint64(free)
	host.MarshalUnsafe(comm.PayloadBuf(answered))
	return answered, nil
}
