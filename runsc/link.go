package main

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
)

// link replaces gVisor's handler, which finds the file by a path. So gVisor's handler fails if that
// name was removed, although the file has other names. It also opens the folder of the file and
// never closes it. This handler finds the file by its descriptor.
func link(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	var r lisafs.LinkAtReq
	if _, ok := r.CheckedUnmarshal(slices.Clone(comm.PayloadBuf(asked))); !ok {
		return 0, unix.EIO
	}
	name := string(r.Name)
	if err := checkSafeName(name); err != nil {
		return 0, err
	}
	folder, err := lookupControlFD(c, r.DirFD)
	if err != nil {
		return 0, err
	}
	defer folder.DecRef(nil)
	target, err := lookupControlFD(c, r.Target)
	if err != nil {
		return 0, err
	}
	defer target.DecRef(nil)
	if !folder.IsDir() {
		return 0, unix.ENOTDIR
	}
	err = safelyWrite(folder, func() error {
		if isDeleted(folder.Node()) {
			return unix.ENOENT
		}
		return unix.Linkat(int(procSelfFD.FD()), strconv.Itoa(*hostFD(target)), *hostFD(folder), name, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil {
		return 0, err
	}
	found, err := find(c, comm, r.DirFD, name)
	if err == unix.ENOENT { // the new name was removed meanwhile; another file could have the name
		return 0, err
	}
	if err != nil {
		safelyWrite(folder, func() error { return unix.Unlinkat(*hostFD(folder), name, 0) })
		return 0, err
	}
	return uint32(copy(comm.PayloadBuf(uint32(len(found))), found)), nil
}

// find opens a file as a walk of the sentry does. It returns the lisafs.Inode.
func find(c *lisafs.Connection, comm lisafs.Communicator, folder lisafs.FDID, name string) ([]byte, error) {
	walk := lisafs.WalkReq{DirFD: folder, Path: lisafs.StringArray{name}}
	p := &private{comm, make([]byte, walk.SizeBytes())}
	walk.MarshalBytes(p.payload)
	answered, err := lisafs.WalkHandler(c, p, uint32(walk.SizeBytes()))
	if err != nil {
		return nil, err
	}
	var status lisafs.WalkStatus
	var count primitive.Uint16
	found := p.payload[status.SizeBytes()+count.SizeBytes() : answered]
	if len(found) != (*lisafs.Inode)(nil).SizeBytes() { // the name was removed
		return nil, unix.ENOENT
	}
	return found, nil
}
