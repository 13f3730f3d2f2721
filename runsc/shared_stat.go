package main

import (
	"encoding/binary"
	"fmt"
	"os"
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
func (s *sharing) hide(b []byte, mark func() (marked bool, since []byte)) {
	var stat lisafs.Statx
	stat.UnmarshalUnsafe(b)
	stat.Ino = s.numbers.of(stat.Ino)
	if linked(&stat) {
		if marked, since := mark(); marked {
			stat.Nlink = 1
			setCtime(&stat, since)
		}
	}
	stat.MarshalUnsafe(b)
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
func unmarked() (marked bool, since []byte) { return false, nil }

// recorded returns the mark of a file. If an unmarked file has several names, all of them are in
// this volume, and recorded calls record.
func (s *sharing) recorded(fd int) (marked bool, since []byte) {
	marked, since, err := s.marked(fd)
	var stat unix.Stat_t
	if err == nil && !marked && fstat(fd, &stat) == nil && stat.Nlink > 1 {
		s.record(fd)
	}
	return marked, since
}

// record gives a file the attribute of files with several names in this volume. If there is no
// space for the attribute, the gofer keeps a regular file open for writing instead, until it exits.
// In both cases, pyro does not mark the file.
func (s *sharing) record(fd int) {
	switch unix.Fsetxattr(fd, s.several, nil, unix.XATTR_CREATE) {
	case nil, unix.EEXIST:
		return
	case unix.EOPNOTSUPP, unix.EROFS: // pyro can't mark the file either
		return
	}
	var stat unix.Stat_t
	if fstat(fd, &stat) != nil || !isRegular(&stat) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[stat.Ino] {
		return
	}
	if _, err := writable(fd); err == nil {
		s.kept[stat.Ino] = true
	}
}

// onFile calls fn with the host's descriptor of a control descriptor or of an open file. If there
// is none with this ID, it does nothing.
func onFile(c *lisafs.Connection, id lisafs.FDID, fn func(fd int)) {
	onNode(c, id, func(_ *lisafs.Node, fd int) { fn(fd) })
}

// onNode is onFile, with the node of the file.
func onNode(c *lisafs.Connection, id lisafs.FDID, fn func(node *lisafs.Node, fd int)) {
	if open, err := lookupOpenFD(c, id); err == nil {
		defer open.DecRef(nil)
		safelyRead(open.ControlFD().FD(), func() error {
			fn(open.ControlFD().FD().Node(), *openHostFD(open))
			return nil
		})
	} else if control, err := lookupControlFD(c, id); err == nil {
		defer control.DecRef(nil)
		safelyRead(control, func() error {
			fn(control.Node(), *hostFD(control))
			return nil
		})
	}
}

// markOf calls recorded for the file of a control descriptor or an open file.
func (s *sharing) markOf(c *lisafs.Connection, id lisafs.FDID) (marked bool, since []byte) {
	onFile(c, id, func(fd int) { marked, since = s.recorded(fd) })
	return marked, since
}

func (s *sharing) stat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.StatReq
	if _, ok := r.CheckedUnmarshal(comm.PayloadBuf(asked)); !ok {
		return 0, unix.EIO
	}
	answered, err := answer(c, comm, asked)
	if err != nil {
		return answered, err
	}
	b := comm.PayloadBuf(answered)
	s.hide(b, func() (bool, []byte) { return s.markOf(c, r.FD) })
	if s.isRemoved(c, r.FD) {
		var stat lisafs.Statx
		stat.UnmarshalUnsafe(b)
		stat.Nlink = 0
		stat.MarshalUnsafe(b)
	}
	return answered, nil
}

// isRemoved reports whether a file is marked, and its only name in this volume was removed.
func (s *sharing) isRemoved(c *lisafs.Connection, id lisafs.FDID) (removed bool) {
	onNode(c, id, func(node *lisafs.Node, fd int) {
		if !hasName(node) {
			removed, _, _ = s.marked(fd)
		}
	})
	return removed
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
		s.hide(b[inode:], func() (bool, []byte) { return s.markOf(c, id) })
	}
	return answered, nil
}

// create is for calls that create a file. Their answers begin with its descriptor and its
// description.
//
// The gofer creates a file before it opens the file for writing, or sets its owner. If the sentry
// creates a file while the machine is paused, pyro can mark the file in between. Then the sentry
// must not get the descriptors. A sentry that keeps the pause does not do that, so the gofer exits.
func (s *sharing) create(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	answered, err := answer(c, comm, asked)
	if err == nil {
		b := comm.PayloadBuf(answered)[inode:]
		var stat lisafs.Statx
		stat.UnmarshalUnsafe(b)
		if stat.Mode&unix.S_IFMT == unix.S_IFREG {
			var id lisafs.FDID
			id.UnmarshalUnsafe(comm.PayloadBuf(answered))
			onFile(c, id, s.mustBeUnmarked)
		}
		s.numbers.created(stat.Ino)
		s.hide(b, unmarked)
	}
	return answered, err
}

// mustBeUnmarked ends the gofer, and so the machine, if a file is marked.
func (s *sharing) mustBeUnmarked(fd int) {
	if marked, _, err := s.marked(fd); marked || err != nil {
		fmt.Fprintln(os.Stderr, "the sentry created a file while the machine was paused")
		os.Exit(1)
	}
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
		s.hide(b, func() (bool, []byte) { return s.markAt(c, r.DirFD, path) })
		b = b[lisafs.SizeOfStatx:]
	}
	return answered, nil
}

// markAt calls recorded for the file at a path. The path begins at a folder, or at the file itself
// if its first name is empty.
func (s *sharing) markAt(c *lisafs.Connection, start lisafs.FDID, path []string) (marked bool, since []byte) {
	if len(path) > 0 && path[0] == "" {
		path = path[1:]
	}
	if len(path) == 0 {
		return s.markOf(c, start)
	}
	fd, err := lookupControlFD(c, start)
	if err != nil {
		return false, nil
	}
	defer fd.DecRef(nil)
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
		marked, since = s.recorded(at)
		return nil
	})
	return marked, since
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
