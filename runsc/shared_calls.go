package main

import (
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// serve wraps the handlers. Before a call changes a file, own replaces a shared file by a copy.
// Calls that describe files hide the sharing.
func (s *sharing) serve(answers []lisafs.RPCHandler) {
	wrap := func(id lisafs.MID, with func(*lisafs.Connection, lisafs.Communicator, uint32, lisafs.RPCHandler) (uint32, error)) {
		answer := answers[id]
		answers[id] = func(c *lisafs.Connection, comm lisafs.Communicator, asked uint32) (uint32, error) {
			return with(c, comm, asked, answer)
		}
	}
	wrap(lisafs.OpenAt, s.openAt)
	wrap(lisafs.SetStat, s.setStat)
	wrap(lisafs.LinkAt, s.linkAt)
	wrap(lisafs.FSetXattr, s.setXattr)
	wrap(lisafs.FRemoveXattr, s.removeXattr)
	wrap(lisafs.FGetXattr, s.getXattr)
	wrap(lisafs.FListXattr, s.listXattr)
	wrap(lisafs.FStat, s.stat)
	wrap(lisafs.Walk, s.walk)
	wrap(lisafs.WalkStat, s.walkStat)
	wrap(lisafs.Getdents64, s.getdents)
	for _, id := range []lisafs.MID{lisafs.OpenCreateAt, lisafs.MkdirAt, lisafs.MknodAt, lisafs.SymlinkAt} {
		wrap(id, s.create)
	}
}

// private is a communicator whose buffer the sentry can't change. The sentry shares the memory of
// its messages with the gofer. A hostile sentry could change a request after the gofer has checked
// it.
type private struct {
	lisafs.Communicator
	payload []byte
}

func (p *private) PayloadBuf(size uint32) []byte {
	if more := int(size) - len(p.payload); more > 0 {
		p.payload = append(p.payload, make([]byte, more)...)
	}
	return p.payload[:size]
}

// request is a request of any call.
type request interface {
	CheckedUnmarshal(b []byte) (rest []byte, ok bool)
}

// once reads a request and calls prepare. Then it calls the handler with the same request, and
// release.
func once(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, to request, prepare func() (release func(), err error), answer lisafs.RPCHandler) (uint32, error) {
	p := &private{comm, slices.Clone(comm.PayloadBuf(asked))}
	if _, ok := to.CheckedUnmarshal(slices.Clone(p.payload)); !ok {
		return 0, unix.EIO
	}
	release, err := prepare()
	if err != nil {
		return 0, err
	}
	defer release()
	answered, err := answer(c, p, asked)
	if err == nil {
		copy(comm.PayloadBuf(answered), p.payload)
	}
	return answered, err
}

func (s *sharing) openAt(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.OpenAtReq
	return once(c, comm, asked, &r, func() (release func(), err error) {
		empties := r.Flags&unix.O_TRUNC != 0
		if r.Flags&unix.O_ACCMODE == unix.O_RDONLY && !empties {
			return func() {}, nil
		}
		return s.own(c, r.FD, !empties)
	}, answer)
}

func (s *sharing) setStat(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.SetStatReq
	return once(c, comm, asked, &r, func() (func(), error) { return s.own(c, r.FD, true) }, answer)
}

func (s *sharing) linkAt(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.LinkAtReq
	answered, err := once(c, comm, asked, &r, func() (release func(), err error) {
		if release, err = s.own(c, r.Target, true); err == nil {
			onFile(c, r.Target, s.record)
		}
		return release, err
	}, answer)
	if err == nil {
		s.hide(comm.PayloadBuf(answered)[inode:], unmarked)
	}
	return answered, err
}

func (s *sharing) setXattr(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.FSetXattrReq
	return once(c, comm, asked, &r, func() (func(), error) { return s.change(c, r.FD, string(r.Name)) }, answer)
}

func (s *sharing) removeXattr(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.FRemoveXattrReq
	return once(c, comm, asked, &r, func() (func(), error) { return s.change(c, r.FD, string(r.Name)) }, answer)
}

// change prepares the change of an extended attribute.
func (s *sharing) change(c *lisafs.Connection, id lisafs.FDID, name string) (release func(), err error) {
	if s.isOwn(name) {
		return nil, unix.EPERM
	}
	return s.own(c, id, true)
}

func (s *sharing) getXattr(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var r lisafs.FGetXattrReq
	return once(c, comm, asked, &r, func() (release func(), err error) {
		if s.isOwn(string(r.Name)) {
			return nil, unix.ENODATA
		}
		return func() {}, nil
	}, answer)
}

func (s *sharing) listXattr(c *lisafs.Connection, comm lisafs.Communicator, asked uint32, answer lisafs.RPCHandler) (uint32, error) {
	var all lisafs.FListXattrReq
	p := &private{comm, slices.Clone(comm.PayloadBuf(asked))}
	if _, ok := all.CheckedUnmarshal(p.payload); !ok {
		return 0, unix.EIO
	}
	// The sentry's size has no space for hidden names. The sentry checks the answer's size too.
	all.Size = 0
	all.MarshalBytes(p.payload)
	answered, err := answer(c, p, asked)
	if err != nil {
		return answered, err
	}
	var r lisafs.FListXattrResp
	if _, ok := r.CheckedUnmarshal(slices.Clone(p.payload[:answered])); !ok {
		return 0, unix.EIO
	}
	r.Xattrs = slices.DeleteFunc(r.Xattrs, s.isOwn)
	r.MarshalBytes(comm.PayloadBuf(uint32(r.SizeBytes())))
	return uint32(r.SizeBytes()), nil
}
