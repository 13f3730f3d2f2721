package main

import (
	"bytes"
	"encoding/binary"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket/netlink"
	"gvisor.dev/gvisor/pkg/sentry/socket/netlink/nlmsg"
	"gvisor.dev/gvisor/pkg/sentry/socket/netlink/route"
	"gvisor.dev/gvisor/pkg/state"
	"gvisor.dev/gvisor/pkg/syserr"
)

// protocols is the sentry's table of netlink protocols. gVisor has no function to replace an entry.
//
//go:linkname protocols gvisor.dev/gvisor/pkg/sentry/socket/netlink.protocols
var protocols map[int]netlink.Provider

func init() {
	state.Register((*routes)(nil))
	protocols[linux.NETLINK_ROUTE] = func(*kernel.Task) (netlink.Protocol, *syserr.Error) { return &routes{}, nil }
}

// routes is gVisor's rtnetlink with one change: the loopback interface accepts an address that it
// already has. In a new network namespace, gVisor's loopback has its addresses from the beginning,
// but Linux's loopback only gets them when it is up. The program bubblewrap adds 127.0.0.1 and
// fails if the address exists.
type routes struct{ rtnetlink }

type rtnetlink = route.Protocol

var _ netlink.RouteProtocol = (*routes)(nil)

// ProcessMessage answers one message.
func (r *routes) ProcessMessage(ctx context.Context, s *netlink.Socket, m *nlmsg.Message, answer *nlmsg.MessageSet) *syserr.Error {
	return r.rtnetlink.ProcessMessage(ctx, s, allowAgain(m), answer)
}

// flagsAt is the offset of the flags in a netlink message header.
const flagsAt = 6

// allowAgain clears the flag that rejects existing addresses, if the message adds an address to the
// loopback interface.
func allowAgain(m *nlmsg.Message) *nlmsg.Message {
	header := m.Header()
	var address linux.InterfaceAddrMessage
	if header.Type != linux.RTM_NEWADDR || header.Flags&linux.NLM_F_EXCL == 0 {
		return m
	}
	if _, ok := m.GetData(&address); !ok || address.Index != linux.LOOPBACK_IFINDEX {
		return m
	}
	buf := bytes.Clone(m.Buffer())
	binary.NativeEndian.PutUint16(buf[flagsAt:], header.Flags&^linux.NLM_F_EXCL)
	if changed, _, ok := nlmsg.ParseMessage(buf); ok {
		return changed
	}
	return m
}

// StateTypeName returns the name of this type in saved machines. A saved machine contains this type
// if a netlink socket was open.
func (*routes) StateTypeName() string { return "pyro.routes" }

// StateFields lists the fields that gVisor saves. gVisor also calls it with a nil receiver.
func (*routes) StateFields() []string { return nil }
