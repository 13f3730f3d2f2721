package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
)

// linked reports whether a file has several names on the host. They can be in other volumes.
func linked(stat *lisafs.Statx) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink > 1
}

// hide changes the description of a file so that it does not show the sharing. The function mark
// returns the results of recorded. It is only called if the file has several names.
func (s *sharing) hide(b []byte, mark func() (marked bool, since []byte, err error)) error {
	var stat lisafs.Statx
	stat.UnmarshalUnsafe(b)
	stat.Ino = s.numbers.of(stat.Ino)
	if linked(&stat) {
		marked, since, err := mark()
		if err != nil {
			return err
		}
		if marked {
			stat.Nlink = 1
			setCtime(&stat, since)
		}
	}
	stat.MarshalUnsafe(b)
	return nil
}

// ctimeSize is the size of the mark of a file that the machine used before: its change time at that
// time. It is big-endian, with 8 bytes for the seconds and 4 for the nanoseconds.
const ctimeSize = 12

// setCtime sets the change time that the machine has seen last, or the time when the file was
// created. The real one changes when another volume gets a link of the file.
func setCtime(stat *lisafs.Statx, since []byte) {
	if len(since) == ctimeSize {
		stat.Ctime = lisafs.StatxTimestamp{Sec: int64(binary.BigEndian.Uint64(since)), Nsec: binary.BigEndian.Uint32(since[8:])}
	} else if stat.Mask&unix.STATX_BTIME != 0 {
		stat.Ctime = stat.Btime
	}
}

// unmarked is the mark of a file that has just been created.
func unmarked() (marked bool, since []byte, err error) { return false, nil, nil }

// recorded returns the mark of a file with several names. If it is not marked, the names are in
// this volume, and recorded gives it the other attribute.
func (s *sharing) recorded(fd int) (marked bool, since []byte, err error) {
	marked, since, err = s.marked(fd)
	if err == nil && !marked {
		err = s.record(fd)
	}
	return marked, since, err
}

// record gives a file the attribute of files with several names in this volume.
func (s *sharing) record(fd int) error {
	switch err := unix.Fsetxattr(fd, s.several, nil, unix.XATTR_CREATE); err {
	case unix.EEXIST, unix.EOPNOTSUPP, unix.EROFS: // in the last two cases, pyro can't mark the file either
		return nil
	default:
		return err
	}
}

// markOf calls recorded for the file of a control descriptor or an open file.
func (s *sharing) markOf(c *lisafs.Connection, id lisafs.FDID) (marked bool, since []byte, err error) {
	if open, err := lookupOpenFD(c, id); err == nil {
		defer open.DecRef(nil)
		err := safelyRead(open.ControlFD().FD(), func() (err error) {
			marked, since, err = s.recorded(*openHostFD(open))
			return err
		})
		return marked, since, err
	}
	control, err := lookupControlFD(c, id)
	if err != nil {
		return false, nil, err
	}
	defer control.DecRef(nil)
	err = safelyRead(control, func() (err error) {
		marked, since, err = s.recorded(*hostFD(control))
		return err
	})
	return marked, since, err
}

func (s *sharing) stat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.StatReq
	if _, ok := r.CheckedUnmarshal(comm.PayloadBuf(asked)); !ok {
		return 0, unix.EIO
	}
	answered, err := answer(c, comm, asked)
	if err == nil {
		err = s.hide(comm.PayloadBuf(answered), func() (bool, []byte, error) { return s.markOf(c, r.FD) })
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
		if err := s.hide(b[inode:], func() (bool, []byte, error) { return s.markOf(c, id) }); err != nil {
			return 0, err
		}
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
		err = s.hide(b, unmarked)
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
		if err := s.hide(b, func() (bool, []byte, error) { return s.markAt(c, r.DirFD, path) }); err != nil {
			return 0, err
		}
		b = b[lisafs.SizeOfStatx:]
	}
	return answered, nil
}

// markAt calls recorded for the file at a path. The path begins at a folder, or at the file itself
// if its first name is empty.
func (s *sharing) markAt(c *lisafs.Connection, start lisafs.FDID, path []string) (marked bool, since []byte, err error) {
	if len(path) > 0 && path[0] == "" {
		path = path[1:]
	}
	if len(path) == 0 {
		return s.markOf(c, start)
	}
	fd, err := lookupControlFD(c, start)
	if err != nil {
		return false, nil, err
	}
	defer fd.DecRef(nil)
	descriptors.RLock()
	defer descriptors.RUnlock()
	err = safelyRead(fd, func() error {
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
		marked, since, err = s.recorded(at)
		return err
	})
	return marked, since, err
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
