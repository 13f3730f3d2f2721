package main

import (
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// served contains the calls that a sentry can make to its gofer. They are gVisor's calls, except
// that sockets are refused. If a call is refused, the sentry handles it itself.
var served = []lisafs.RPCHandler{
	lisafs.Error:        lisafs.ErrorHandler,
	lisafs.Mount:        lisafs.MountHandler,
	lisafs.Channel:      lisafs.ChannelHandler,
	lisafs.FStat:        lisafs.FStatHandler,
	lisafs.SetStat:      setStat,
	lisafs.Walk:         lisafs.WalkHandler,
	lisafs.WalkStat:     lisafs.WalkStatHandler,
	lisafs.OpenAt:       lisafs.OpenAtHandler,
	lisafs.OpenCreateAt: lisafs.OpenCreateAtHandler,
	lisafs.Close:        lisafs.CloseHandler,
	lisafs.FSync:        lisafs.FSyncHandler,
	lisafs.PWrite:       lisafs.PWriteHandler,
	lisafs.PRead:        lisafs.PReadHandler,
	lisafs.MkdirAt:      lisafs.MkdirAtHandler,
	lisafs.MknodAt:      lisafs.MknodAtHandler,
	lisafs.SymlinkAt:    lisafs.SymlinkAtHandler,
	lisafs.LinkAt:       link,
	lisafs.FStatFS:      lisafs.FStatFSHandler, // usage.serve replaces it with a handler that reports the limit
	lisafs.FAllocate:    allocate,
	lisafs.ReadLinkAt:   lisafs.ReadLinkAtHandler,
	lisafs.UnlinkAt:     unlink,
	lisafs.RenameAt:     rename,
	lisafs.Getdents64:   lisafs.Getdents64Handler,
	lisafs.FGetXattr:    lisafs.FGetXattrHandler,
	lisafs.FSetXattr:    lisafs.FSetXattrHandler,
	lisafs.FListXattr:   lisafs.FListXattrHandler,
	lisafs.FRemoveXattr: lisafs.FRemoveXattrHandler,
	lisafs.RenameAt2:    renameWithFlags,
	lisafs.BindAt:       refuse,
	lisafs.Connect:      refuse,
}

func refuse(*lisafs.Connection, lisafs.Communicator, uint32) (uint32, error) { return 0, unix.EPERM }

// setStat is gVisor's handler, but it fails if one of the attributes can't be set. A sentry with
// shared files does not check the failure mask itself.
func setStat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	answered, err := lisafs.SetStatHandler(c, comm, asked)
	if err != nil {
		return answered, err
	}
	var answer lisafs.SetStatResp
	if _, ok := answer.CheckedUnmarshal(comm.PayloadBuf(answered)); !ok {
		return 0, unix.EIO
	}
	if answer.FailureMask != 0 {
		return 0, unix.Errno(answer.FailureErrNo)
	}
	return answered, nil
}

// allocate is gVisor's handler. But if the sentry fills holes (keepsSize) and there are none, it
// does nothing, because the handler would change the modification time.
func allocate(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	var r lisafs.FAllocateReq
	if _, ok := r.CheckedUnmarshal(slices.Clone(comm.PayloadBuf(asked))); !ok {
		return 0, unix.EIO
	}
	if r.Mode != keepsSize {
		return lisafs.FAllocateHandler(c, comm, asked)
	}
	full := false
	onFile(c, r.FD, func(fd int) {
		hole, err := unix.Seek(fd, int64(r.Offset), unix.SEEK_HOLE)
		full = err == nil && uint64(hole) >= r.Offset+r.Length
	})
	if full {
		return 0, nil
	}
	r.Mode = 0 // the filter allows no other
	p := &private{comm, make([]byte, r.SizeBytes())}
	r.MarshalBytes(p.payload)
	return lisafs.FAllocateHandler(c, p, uint32(r.SizeBytes()))
}
