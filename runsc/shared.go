package main

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// sharing lets volumes share files. pyro makes a new volume of hard links to the files of a
// baseline or a snapshot, and marks these files with an extended attribute. A marked file never
// changes. Before a call changes such a file, the gofer replaces it by a copy in this volume (own).
// The sentry gets no descriptor that could change a marked file.
//
// While the machine is paused, pyro can also mark files of this volume, but no file that is open
// for writing. A hostile sentry can ignore the pause. So the gofer has each unmarked file open for
// writing while a call changes it.
//
// A marked file has exactly one name in each volume, and the copy takes over this name. Before the
// machine makes a hard link to a marked file, the gofer copies the file.
//
// The sentry uses the same descriptors for all names of a file, also after some of them are
// removed. The gofer would exchange only the descriptors of one name. So it gives each file with
// several names another attribute. While the machine runs, pyro never marks such a file.
//
// The machine must not notice any of this. It sees neither the attributes nor the links of other
// volumes. The copy keeps the inode number that the machine knows (numbers.go), because the sentry
// identifies files by it.
type sharing struct {
	mark    string // attribute of marked files
	several string // attribute of files with several names in this volume
	flushes bool   // a copy must be flushed before it gets its name
	numbers numbers

	mu     sync.Mutex
	last   int             // number of the last copy
	staged map[uint64]bool // inodes of unfinished copies
	kept   map[uint64]bool // inodes of files that stay open for writing
}

// stagedPrefix begins the names of unfinished copies. They are in the root of the volume, so that
// pyro never copies them with the files. If a gofer is killed, the next one removes them.
const stagedPrefix = "staged-"

// Before a file replaces another one by a rename, these file systems write the content of the file.
const (
	ext4Magic  = 0xef53
	btrfsMagic = 0x9123683e
	tmpfsMagic = 0x01021994
)

// newSharing removes the unfinished copies of an earlier gofer. Call it before the filter is
// installed.
func newSharing(mark, several string) (*sharing, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		return nil, os.NewSyscallError("statfs", err)
	}
	left, err := os.ReadDir("/")
	if err != nil {
		return nil, err
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), stagedPrefix) {
			if err := os.RemoveAll("/" + entry.Name()); err != nil {
				return nil, err
			}
		}
	}
	flushes := fs.Type != ext4Magic && fs.Type != btrfsMagic && fs.Type != tmpfsMagic
	return &sharing{mark: mark, several: several, flushes: flushes, staged: map[uint64]bool{}, kept: map[uint64]bool{}}, nil
}

// isOwn reports whether an extended attribute belongs to the gofer.
func (s *sharing) isOwn(name string) bool { return name == s.mark || name == s.several }

// marked reports whether a descriptor refers to a marked file. After an error, the caller must not
// change the file. If the machine has used the file before it was marked, since is the value of the
// mark, otherwise it is empty.
func (s *sharing) marked(fd int) (marked bool, since []byte, err error) {
	value := make([]byte, ctimeSize)
	switch n, err := unix.Fgetxattr(fd, s.mark, value); err {
	case nil:
		return true, value[:n], nil
	case unix.ENODATA, unix.EOPNOTSUPP:
		return false, nil, nil
	default:
		return false, nil, err
	}
}

// isStaged reports whether an inode is an unfinished copy. Such a copy does not count as used
// space, because the volume already contains the original.
func (s *sharing) isStaged(inode uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staged[inode]
}

// own makes sure that a file belongs only to this volume, so that the caller can change it. Without
// keep, a copy is empty, because the caller will remove its content. Files that are not regular
// always belong only to this volume. The file stays open for writing until the caller calls
// release, so that pyro does not mark it before.
func (s *sharing) own(c *lisafs.Connection, id lisafs.FDID, keep bool) (release func(), err error) {
	fd, err := lookupControlFD(c, id)
	if err != nil {
		return nil, err
	}
	defer fd.DecRef(nil)
	for {
		original, held := -1, -1
		err = safelyRead(fd, func() (err error) {
			original, held, err = s.hold(*hostFD(fd))
			return err
		})
		if err != nil {
			return nil, err
		}
		if held >= 0 {
			return func() { unix.Close(held) }, nil
		}
		if original < 0 {
			return func() {}, nil
		}
		if err := s.exchange(fd, original, keep); err != nil {
			return nil, err
		}
	}
}

// hold opens a file for writing. If the file is marked, it duplicates the descriptor instead. If
// the file is not regular, it does nothing and returns -1 twice. It asks the host for the type,
// because a hostile sentry can exchange a file while the gofer creates it. Then gVisor's type of
// the descriptor is wrong.
func (s *sharing) hold(fd int) (original, held int, err error) {
	var stat unix.Stat_t
	if err := fstat(fd, &stat); err != nil || !isRegular(&stat) {
		return -1, -1, err
	}
	marked, _, err := s.marked(fd)
	if err == nil && !marked {
		if held, err = writable(fd); err != nil {
			return -1, -1, err
		}
		if marked, _, err = s.marked(fd); err == nil && !marked {
			return -1, held, nil
		}
		unix.Close(held)
	}
	if err == nil {
		original, err = unix.Dup(fd)
	}
	return original, -1, err
}

// writable opens the file of a descriptor for writing.
func writable(fd int) (int, error) {
	return unix.Openat(int(procSelfFD.FD()), strconv.Itoa(fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

// exchange replaces a marked file by a copy, and closes the descriptor original of the file.
func (s *sharing) exchange(fd *lisafs.ControlFD, original int, keep bool) error {
	defer unix.Close(original)
	// The original never changes, so it can be copied without a lock. The other calls can continue.
	made, err := s.copy(original, keep)
	if err != nil {
		return err
	}
	defer s.forget(made)
	return safelyGlobal(fd, func() error { return s.replace(fd, original, made) })
}

// replace puts a copy in the place of the original. No other call runs at the same time, except
// calls that close files.
func (s *sharing) replace(fd *lisafs.ControlFD, original int, made *staged) error {
	var was, now unix.Stat_t
	if err := fstat(original, &was); err != nil {
		return err
	}
	if err := fstat(*hostFD(fd), &now); err != nil {
		return err
	}
	if now.Ino != was.Ino { // another call was faster
		return nil
	}
	users := 0
	eachUser(fd.Node(), was.Ino, func(*int) { users++ })
	var spare []int // no step after the rename can fail
	defer func() { closeAllFDs(spare) }()
	for range users {
		another, err := unix.Dup(made.fd)
		if err != nil {
			return err
		}
		spare = append(spare, another)
	}
	if hasName(fd.Node()) {
		if err := made.rename(fd.Node(), was.Ino); err != nil {
			return err
		}
	}
	s.numbers.replaced(was.Ino, made.inode)
	eachUser(fd.Node(), was.Ino, func(user *int) {
		unix.Close(*user)
		*user, spare = spare[0], spare[1:]
	})
	return nil
}

func closeAllFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// eachUser calls fn for the descriptors of a node that refer to an inode.
func eachUser(node *lisafs.Node, inode uint64, fn func(fd *int)) {
	each := func(fd *int) {
		var stat unix.Stat_t
		if fstat(*fd, &stat) == nil && stat.Ino == inode {
			fn(fd)
		}
	}
	forEachFD(node, func(control *lisafs.ControlFD) {
		each(hostFD(control))
		forEachOpenFD(control, func(open *lisafs.OpenFD) { each(openHostFD(open)) })
	})
}

// fstat works around the filter, which forbids the system call of the same name.
func fstat(fd int, stat *unix.Stat_t) error {
	return unix.Fstatat(fd, "", stat, unix.AT_EMPTY_PATH)
}

func isRegular(stat *unix.Stat_t) bool { return stat.Mode&unix.S_IFMT == unix.S_IFREG }

// staged is a copy that does not have its name yet.
type staged struct {
	path  string
	inode uint64
	fd    int // for reading
}

// rename replaces the file of a node. The inode original must be that file. A machine can't
// exchange the staged file, because no other call runs at the same time.
func (f *staged) rename(node *lisafs.Node, original uint64) error {
	parent, name, err := parentOf(node)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	var there, here unix.Stat_t
	if err := unix.Fstatat(parent, name, &there, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Fstatat(unix.AT_FDCWD, f.path, &here, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if there.Ino != original || here.Ino != f.inode {
		return unix.ESTALE
	}
	return unix.Renameat2(unix.AT_FDCWD, f.path, parent, name, 0)
}

// parentOf opens the folder of a node, one name at a time, and follows no links. The caller closes
// it.
func parentOf(node *lisafs.Node) (folder int, name string, err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	names := strings.Split(strings.TrimPrefix(node.FilePath(), "/"), "/")
	at, err := unix.Openat(unix.AT_FDCWD, "/", flags, 0)
	for _, below := range names[:len(names)-1] {
		if err != nil {
			break
		}
		parent := at
		at, err = unix.Openat(parent, below, flags, 0)
		unix.Close(parent)
	}
	return at, names[len(names)-1], err
}

// copy creates a staged copy of a file. The caller must call forget.
func (s *sharing) copy(original int, keep bool) (made *staged, err error) {
	s.mu.Lock()
	s.last++
	made = &staged{path: "/" + stagedPrefix + strconv.Itoa(s.last), fd: -1}
	s.mu.Unlock()
	to, err := unix.Openat(unix.AT_FDCWD, made.path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		made.fd, err = unix.Openat(unix.AT_FDCWD, made.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if to >= 0 {
		defer unix.Close(to)
	}
	defer func() {
		if err != nil {
			s.forget(made)
		}
	}()
	var is, reads unix.Stat_t
	if err == nil {
		err = fstat(to, &is)
	}
	if err == nil {
		err = fstat(made.fd, &reads)
	}
	if err != nil {
		return nil, err
	}
	if is.Ino != reads.Ino { // the machine has replaced the file
		return nil, unix.ESTALE
	}
	made.inode = is.Ino
	s.mu.Lock()
	s.staged[made.inode] = true
	s.mu.Unlock()
	return made, s.fill(to, original, keep)
}

// forget closes a copy. If the copy did not get its name, forget removes it.
func (s *sharing) forget(f *staged) {
	s.mu.Lock()
	delete(s.staged, f.inode)
	s.mu.Unlock()
	unix.Unlinkat(unix.AT_FDCWD, f.path, 0)
	if f.fd >= 0 {
		unix.Close(f.fd)
	}
}
