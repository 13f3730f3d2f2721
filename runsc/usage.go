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

// usage measures the space that the files of a volume use on the host, in bytes. It reads the
// metadata of all files, so the sentry should ask rarely, see quota.
type usage struct {
	limit    int64                   // maximum size in bytes
	isStaged func(inode uint64) bool // reports files that do not count, because they will replace other files

	shrunk atomic.Bool // a call might have freed space since the last measurement

	mu    sync.Mutex
	last  int64
	taken time.Time     // time at which the last measurement ended
	took  time.Duration // duration of the last measurement
}

const (
	// usedBlock is the unit of a volume's size, in bytes.
	usedBlock = 4096
	// restFactor determines the minimum pause between two measurements. The pause is this multiple
	// of the duration of the last measurement. So the gofer has time for other calls while programs
	// write to a nearly full volume.
	restFactor = 4
	// blindSpot is the number of consecutive unused descriptors after which the search for open
	// files stops.
	blindSpot = 4096
)

// now measures the volume and returns its size in bytes. If the volume was full and no space was
// freed since, now returns the last value.
func (u *usage) now() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last > u.limit-usedBlock && !u.shrunk.Load() {
		return u.last, nil
	}
	time.Sleep(time.Until(u.taken.Add(restFactor * u.took)))
	u.shrunk.Store(false)
	began := time.Now()
	w := walk{links: map[uint64]bool{}, isStaged: u.isStaged}
	if err := w.folder(unix.AT_FDCWD, "/"); err != nil {
		return 0, err
	}
	w.removed()
	u.last, u.taken, u.took = w.bytes, time.Now(), time.Since(began)
	return u.last, nil
}

// walk is one measurement.
type walk struct {
	bytes int64
	links map[uint64]bool // inodes that are already counted, for files with several names or no name

	isStaged func(inode uint64) bool
}

// folder counts a folder and everything in it. It skips files that are removed during the
// measurement.
func (w *walk) folder(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
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
	if !w.isStaged(stat.Ino) && (stat.Nlink == 1 || w.first(stat.Ino)) {
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

// removed counts open files that have no name any more.
func (w *walk) removed() {
	for fd, missing := 3, 0; missing < blindSpot; fd++ {
		var stat unix.Stat_t
		if unix.Fstatat(fd, "", &stat, unix.AT_EMPTY_PATH) != nil { // Fstatat because the filter forbids fstat
			missing++
			continue
		}
		missing = 0
		if isRegular(&stat) && stat.Nlink == 0 && w.first(stat.Ino) {
			w.add(&stat)
		}
	}
}

// frees wraps a handler that might free space.
func (u *usage) frees(answer lisafs.RPCHandler) lisafs.RPCHandler {
	return func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
		defer u.shrunk.Store(true)
		return answer(c, comm, asked)
	}
}

// serve changes the handlers so that they report the volume's limit as the size of its file system.
// It also makes handlers record that they might have freed space.
func (u *usage) serve(answers []lisafs.RPCHandler) {
	answers[lisafs.FStatFS] = u.statFS
	for _, id := range []lisafs.MID{lisafs.Close, lisafs.SetStat, lisafs.FAllocate, lisafs.UnlinkAt, lisafs.RenameAt, lisafs.RenameAt2} {
		answers[id] = u.frees(answers[id])
	}
}

// statFS is gVisor's handler, but it reports the limit as the size of the file system. The reported
// free space is at most the free space on the host.
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
