package main

import (
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// served contains the calls that a sentry can make to its gofer. They are gVisor's calls, except
// that sockets are refused. If a call is refused, the sentry handles it itself.
var served = []lisafs.RPCHandler{
	lisafs.Error:        lisafs.ErrorHandler,
	lisafs.Mount:        opening(lisafs.MountHandler),
	lisafs.Channel:      opening(lisafs.ChannelHandler),
	lisafs.FStat:        lisafs.FStatHandler,
	lisafs.SetStat:      opening(setStat),
	lisafs.Walk:         opening(lisafs.WalkHandler),
	lisafs.WalkStat:     opening(lisafs.WalkStatHandler),
	lisafs.OpenAt:       opening(lisafs.OpenAtHandler),
	lisafs.OpenCreateAt: opening(lisafs.OpenCreateAtHandler),
	lisafs.Close:        opening(lisafs.CloseHandler),
	lisafs.FSync:        lisafs.FSyncHandler,
	lisafs.PWrite:       lisafs.PWriteHandler,
	lisafs.PRead:        lisafs.PReadHandler,
	lisafs.MkdirAt:      opening(lisafs.MkdirAtHandler),
	lisafs.MknodAt:      opening(lisafs.MknodAtHandler),
	lisafs.SymlinkAt:    opening(lisafs.SymlinkAtHandler),
	lisafs.LinkAt:       link,
	lisafs.FStatFS:      lisafs.FStatFSHandler, // usage.serve replaces it with a handler that reports the limit
	lisafs.FAllocate:    lisafs.FAllocateHandler,
	lisafs.ReadLinkAt:   opening(lisafs.ReadLinkAtHandler),
	lisafs.UnlinkAt:     opening(lisafs.UnlinkAtHandler),
	lisafs.RenameAt:     opening(lisafs.RenameAtHandler),
	lisafs.Getdents64:   lisafs.Getdents64Handler,
	lisafs.FGetXattr:    lisafs.FGetXattrHandler,
	lisafs.FSetXattr:    lisafs.FSetXattrHandler,
	lisafs.FListXattr:   lisafs.FListXattrHandler,
	lisafs.FRemoveXattr: lisafs.FRemoveXattrHandler,
	lisafs.RenameAt2:    opening(lisafs.RenameAt2Handler),
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

// descriptors protects the list of open descriptors. While it is locked for writing, no other call
// can open or close a descriptor.
var descriptors sync.RWMutex

// opening wraps a handler that opens or closes descriptors.
func opening(answer lisafs.RPCHandler) lisafs.RPCHandler {
	return func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
		descriptors.RLock()
		defer descriptors.RUnlock()
		return answer(c, comm, asked)
	}
}

// link wraps gVisor's handler and fixes a leak. gVisor's handler opens the folder of the file and
// never closes it (controlFDLisa.Link in runsc/fsgofer). After a few thousand links, the gofer
// could open no further files. git makes a link for each object. A new descriptor always has the
// lowest free number. So that number identifies the leaked descriptor while no other call opens or
// closes descriptors.
func link(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
	descriptors.Lock()
	defer descriptors.Unlock()
	lowest, err := unix.Dup(sentryFD)
	if err != nil {
		return 0, err
	}
	unix.Close(lowest)
	answered, err := lisafs.LinkAtHandler(c, comm, asked)
	if isFolderName(lowest) {
		unix.Close(lowest)
	}
	return answered, err
}

// isFolderName reports whether a descriptor refers to a folder without access to its content
// (O_PATH). Descriptors that other calls use are readable.
func isFolderName(fd int) bool {
	var stat unix.Stat_t
	if unix.Fstatat(fd, "", &stat, unix.AT_EMPTY_PATH) != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH != 0
}
