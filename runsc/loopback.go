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

// protocols are the netlink protocols of the sentry. gVisor has no way to replace one.
//
//go:linkname protocols gvisor.dev/gvisor/pkg/sentry/socket/netlink.protocols
var protocols map[int]netlink.Provider

func init() {
	state.Register((*routes)(nil))
	protocols[linux.NETLINK_ROUTE] = func(*kernel.Task) (netlink.Protocol, *syserr.Error) { return &routes{}, nil }
}

// routes is gVisor's rtnetlink, except that an address may be given to the loopback interface again.
// In a new network namespace gVisor's has its addresses at once, and Linux's has none until it is up:
// bubblewrap gives it 127.0.0.1, and gives up if that exists.
type routes struct{ rtnetlink }

type rtnetlink = route.Protocol

var _ netlink.RouteProtocol = (*routes)(nil)

// ProcessMessage answers one message.
func (r *routes) ProcessMessage(ctx context.Context, s *netlink.Socket, m *nlmsg.Message, answer *nlmsg.MessageSet) *syserr.Error {
	return r.rtnetlink.ProcessMessage(ctx, s, allowAgain(m), answer)
}

// flagsAt is where the flags are in the header of a netlink message.
const flagsAt = 6

// allowAgain gives a message without the flag that refuses an address that exists, if it is for the
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

// StateTypeName is the name under which gVisor saves it with a machine that has an open socket.
func (*routes) StateTypeName() string { return "pyro.routes" }

// StateFields are the names of what is saved of it. gVisor also calls it with nil.
func (*routes) StateFields() []string { return nil }
