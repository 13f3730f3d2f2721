package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// interfaceName is the name of the machine's only network interface, besides loopback.
const interfaceName = "eth0"

// connect configures the machine's network interface. If the configuration is the same as before,
// for example after a broken session, connect changes nothing. The user's own changes then stay. If
// only the MAC differs, for example after a restore, connect changes only the MAC.
func (e *execEnv) connect(n *agentv1.Network) error {
	l, err := agent.LinkOf(n)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l == e.link {
		return nil
	}
	before := e.link
	before.MAC = l.MAC
	e.link = agent.Link{} // after an error, the configuration is unknown
	if l == before {
		err = setMAC(l.MAC)
	} else {
		err = configure(l)
	}
	if err != nil {
		return err
	}
	e.link = l
	return nil
}

// setMAC changes the MAC of the interface without taking it down. Under emulation, this ioctl is
// faster than netlink, because less kernel code runs.
func setMAC(mac [6]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	// struct ifreq of linux/if.h: the name, and a struct sockaddr with the hardware type and the
	// address
	var request [unix.IFNAMSIZ + 24]byte
	copy(request[:], interfaceName)
	binary.NativeEndian.PutUint16(request[unix.IFNAMSIZ:], unix.ARPHRD_ETHER)
	copy(request[unix.IFNAMSIZ+2:], mac[:])
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFHWADDR, uintptr(unsafe.Pointer(&request[0]))); errno != 0 {
		return os.NewSyscallError("SIOCSIFHWADDR", errno)
	}
	return nil
}

// configure sets the addresses and routes of a link on the interface, and removes all others. It
// sends two batches of requests. The first one reads the current state, and the second one changes
// it.
func configure(l agent.Link) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	answers, err := ask(fd, []request{
		{what: "find it", message: message(unix.RTM_GETLINK, 0, linkHeader(0, 0, 0), attribute(unix.IFLA_IFNAME, append([]byte(interfaceName), 0)))},
		{what: "list addresses", message: message(unix.RTM_GETADDR, unix.NLM_F_DUMP, addressHeader(unix.AF_UNSPEC, 0, 0, 0))},
	})
	if errors.Is(err, unix.ENODEV) {
		return errors.New("the machine has no network interface")
	}
	if err != nil {
		return err
	}
	was, err := stateOf(answers)
	if err != nil {
		return err
	}
	if err := quietIPv6(); err != nil {
		return err
	}
	_, err = ask(fd, changes(l, was))
	return err
}

// quietIPv6 disables router advertisements, automatic addresses and duplicate address detection.
// The gateway is the only other host on the network, and it assigns the addresses.
func quietIPv6() error {
	folder := filepath.Join("/proc/sys/net/ipv6/conf", interfaceName)
	for _, name := range []string{"accept_ra", "autoconf", "accept_dad"} {
		if err := put(filepath.Join(folder, name), "0"); err != nil && !errors.Is(err, os.ErrNotExist) { // missing in a kernel without IPv6
			return err
		}
	}
	return nil
}

// state is the current configuration of the interface.
type state struct {
	index     uint32
	mac       []byte
	addresses [][]byte // data of the kernel's address messages, without link-local addresses
}

// stateOf reads the state from the kernel's answers: first the link, then the addresses.
func stateOf(answers []syscall.NetlinkMessage) (was state, err error) {
	for _, m := range answers {
		switch {
		case m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= unix.SizeofIfInfomsg:
			was.index = binary.NativeEndian.Uint32(m.Data[4:])
			attributes, err := syscall.ParseNetlinkRouteAttr(&m)
			if err != nil {
				return was, fmt.Errorf("parse the kernel's answer: %w", err)
			}
			for _, a := range attributes {
				if a.Attr.Type == unix.IFLA_ADDRESS {
					was.mac = a.Value
				}
			}
		case m.Header.Type == unix.RTM_NEWADDR && len(m.Data) >= unix.SizeofIfAddrmsg:
			if scope, index := m.Data[3], binary.NativeEndian.Uint32(m.Data[4:]); index == was.index && scope < unix.RT_SCOPE_LINK {
				was.addresses = append(was.addresses, m.Data)
			}
		}
	}
	return was, nil
}

// changes returns the requests that configure the interface. They take the interface down and up
// again. This removes routes and addresses that the kernel itself has made.
func changes(l agent.Link, was state) []request {
	var rs []request
	for _, a := range was.addresses {
		// When the kernel removes another address of the same network, it might remove this one
		// too.
		rs = append(rs, request{what: "remove an address", message: message(unix.RTM_DELADDR, 0, a), ignore: unix.EADDRNOTAVAIL})
	}
	var mac []byte
	if !bytes.Equal(was.mac, l.MAC[:]) {
		mac = attribute(unix.IFLA_ADDRESS, l.MAC[:])
	}
	mtu := attribute(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, uint32(l.MTU)))
	rs = append(rs,
		request{what: "set its MAC", message: message(unix.RTM_NEWLINK, 0, linkHeader(was.index, 0, unix.IFF_UP), mac)},
		request{what: "bring it up", message: message(unix.RTM_NEWLINK, 0, linkHeader(was.index, unix.IFF_UP, unix.IFF_UP), mtu)},
		addAddress(was.index, l.Address), addRoute(was.index, l.Gateway))
	if l.Address6.IsValid() {
		rs = append(rs, addAddress(was.index, l.Address6), addRoute(was.index, l.Gateway6))
	}
	return rs
}

// addAddress adds an address to the interface.
func addAddress(index uint32, p netip.Prefix) request {
	a := p.Addr().AsSlice()
	family, flags := byte(unix.AF_INET6), byte(unix.IFA_F_NODAD)
	attributes := [][]byte{attribute(unix.IFA_LOCAL, a), attribute(unix.IFA_ADDRESS, a)}
	if p.Addr().Is4() {
		family, flags = unix.AF_INET, 0
		if p.Bits() < 31 { // a network with two addresses has no broadcast address
			attributes = append(attributes, attribute(unix.IFA_BROADCAST, broadcast(p)))
		}
	}
	return request{
		what:    "add " + p.String(),
		message: message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, addressHeader(family, byte(p.Bits()), flags, index), attributes...),
	}
}

// broadcast returns the last address of an IPv4 network.
func broadcast(p netip.Prefix) []byte {
	a := p.Addr().As4()
	return binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(a[:])|(1<<(32-p.Bits())-1))
}

// addRoute makes the default route lead to the gateway.
func addRoute(index uint32, gateway netip.Addr) request {
	family := byte(unix.AF_INET6)
	if gateway.Is4() {
		family = unix.AF_INET
	}
	// struct rtmsg: family, prefix lengths of destination and source, tos, table, protocol, scope,
	// type, flags
	header := []byte{family, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	return request{
		what: "route to " + gateway.String(),
		message: message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, header,
			attribute(unix.RTA_GATEWAY, gateway.AsSlice()), attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, index))),
	}
}
