package main

import (
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
)

// linked reports whether a file has several names on the host. They can be in other volumes.
func linked(stat *lisafs.Statx) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink > 1
}

// hide changes the description of a file so that it does not show the sharing. The function marked
// is only called if the file has several names.
func (s *sharing) hide(b []byte, marked func() bool) {
	var stat lisafs.Statx
	stat.UnmarshalUnsafe(b)
	stat.Ino = s.numbers.of(stat.Ino)
	if linked(&stat) && marked() {
		stat.Nlink = 1
		if stat.Mask&unix.STATX_BTIME != 0 { // a new link in another volume changes the ctime
			stat.Ctime = stat.Btime
		}
	}
	stat.MarshalUnsafe(b)
}

// isMarked reports whether a control descriptor or an open file refers to a marked file.
func (s *sharing) isMarked(c *lisafs.Connection, id lisafs.FDID) (marked bool) {
	if open, err := lookupOpenFD(c, id); err == nil {
		defer open.DecRef(nil)
		safelyRead(open.ControlFD().FD(), func() error {
			marked, _ = s.marked(*openHostFD(open))
			return nil
		})
	} else if control, err := lookupControlFD(c, id); err == nil {
		defer control.DecRef(nil)
		safelyRead(control, func() error {
			marked, _ = s.marked(*hostFD(control))
			return nil
		})
	}
	return marked
}

func (s *sharing) stat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.StatReq
	if _, ok := r.CheckedUnmarshal(comm.PayloadBuf(asked)); !ok {
		return 0, unix.EIO
	}
	answered, err := answer(c, comm, asked)
	if err == nil {
		s.hide(comm.PayloadBuf(answered), func() bool { return s.isMarked(c, r.FD) })
	}
	return answered, err
}

// inode is the position of the description in an lisafs.Inode.
var inode = (*lisafs.FDID)(nil).SizeBytes()

func (s *sharing) walk(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	answered, err := answer(c, comm, asked)
	if err != nil {
		return answered, err
	}
	var status lisafs.WalkStatus
	var count primitive.Uint16
	size := (*lisafs.Inode)(nil).SizeBytes()
	for b := comm.PayloadBuf(answered)[status.SizeBytes()+count.SizeBytes():]; len(b) >= size; b = b[size:] {
		var id lisafs.FDID
		id.UnmarshalUnsafe(b)
		s.hide(b[inode:], func() bool { return s.isMarked(c, id) })
	}
	return answered, nil
}

// create is for calls that create a file. Their answers begin with its description.
func (s *sharing) create(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	answered, err := answer(c, comm, asked)
	if err == nil {
		b := comm.PayloadBuf(answered)[inode:]
		var stat lisafs.Statx
		stat.UnmarshalUnsafe(b)
		s.numbers.created(stat.Ino)
		s.hide(b, func() bool { return false })
	}
	return answered, err
}

func (s *sharing) walkStat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.WalkReq
	if _, ok := r.CheckedUnmarshal(slices.Clone(comm.PayloadBuf(asked))); !ok {
		return 0, unix.EIO
	}
	answered, err := answer(c, comm, asked)
	if err != nil {
		return answered, err
	}
	b := comm.PayloadBuf(answered)[(*primitive.Uint16)(nil).SizeBytes():]
	for i := 1; len(b) >= lisafs.SizeOfStatx; i++ {
		path := r.Path[:min(i, len(r.Path))]
		s.hide(b, func() bool { return s.isMarkedAt(c, r.DirFD, path) })
		b = b[lisafs.SizeOfStatx:]
	}
	return answered, nil
}

// isMarkedAt reports whether the file at a path is marked. The path begins at a folder, or at the
// file itself if its first name is empty.
func (s *sharing) isMarkedAt(c *lisafs.Connection, start lisafs.FDID, path []string) bool {
	if len(path) > 0 && path[0] == "" {
		path = path[1:]
	}
	if len(path) == 0 {
		return s.isMarked(c, start)
	}
	fd, err := lookupControlFD(c, start)
	if err != nil {
		return false
	}
	defer fd.DecRef(nil)
	marked := false
	descriptors.RLock()
	defer descriptors.RUnlock()
	safelyRead(fd, func() error {
		at, err := unix.Dup(*hostFD(fd))
		for i, name := range path {
			if err != nil {
				return err
			}
			flags := unix.O_PATH | unix.O_DIRECTORY
			if i == len(path)-1 {
				flags = unix.O_RDONLY | unix.O_NONBLOCK
			}
			parent := at
			at, err = unix.Openat(parent, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			unix.Close(parent)
		}
		if err != nil {
			return err
		}
		defer unix.Close(at)
		marked, err = s.marked(at)
		return err
	})
	return marked
}

func (s *sharing) getdents(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	answered, err := answer(c, comm, asked)
	if err != nil {
		return answered, err
	}
	for b := comm.PayloadBuf(answered)[(*primitive.Uint16)(nil).SizeBytes():]; len(b) > 0; {
		var entry lisafs.Dirent64
		rest, ok := entry.CheckedUnmarshal(b)
		if !ok {
			return 0, unix.EIO
		}
		entry.Ino = primitive.Uint64(s.numbers.of(uint64(entry.Ino)))
		entry.Ino.MarshalUnsafe(b)
		b = rest
	}
	return answered, nil
}
