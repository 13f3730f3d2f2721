package main

import (
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// served is what a sentry may ask of its gofer: gVisor's own answers, without those for sockets of the host. One that is refused is the sentry's own.
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
	lisafs.FStatFS:      lisafs.FStatFSHandler, // replaced by one that knows the limit: see usage.serve
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

// setStat is gVisor's answer, but an error where something could not be set: a sentry that shares its files with the host forgets to look.
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

// descriptors is held for writing while nothing else may open or close one.
var descriptors sync.RWMutex

// opening is an answer for which descriptors are opened or closed.
func opening(answer lisafs.RPCHandler) lisafs.RPCHandler {
	return func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
		descriptors.RLock()
		defer descriptors.RUnlock()
		return answer(c, comm, asked)
	}
}

// link is gVisor's answer, but that it leaves nothing open. gVisor's opens the folder that a file is in before anything else, and never closes it
// (controlFDLisa.Link in runsc/fsgofer): after some thousand links, of which git makes one for every object, the gofer could open no file any more. A new
// descriptor has the lowest number that is free, which is that folder's while nothing else opens or closes one.
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

// isFolderName tells whether a descriptor does no more than to stand for a folder. Those that answers are given from can be read.
func isFolderName(fd int) bool {
	var stat unix.Stat_t
	if unix.Fstatat(fd, "", &stat, unix.AT_EMPTY_PATH) != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH != 0
}
