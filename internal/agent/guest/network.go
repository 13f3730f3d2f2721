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

// interfaceName is what the kernel calls a machine's one network interface.
const interfaceName = "eth0"

// connect configures the machine's network interface. Where it was configured so before, as when a session broke, it stays what the user has made of it since; and
// where another machine's MAC is all that differs, as after a restore, that is all that is changed.
func (p *place) connect(n *agentv1.Network) error {
	l, err := agent.LinkOf(n)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l == p.link {
		return nil
	}
	before := p.link
	before.MAC = l.MAC
	p.link = agent.Link{} // half configured it is nothing that is known
	if l == before {
		err = setMAC(l.MAC)
	} else {
		err = configure(l)
	}
	if err != nil {
		return err
	}
	p.link = l
	return nil
}

// setMAC changes the MAC of the interface, which stays up. It takes the way that has least of the kernel run.
func setMAC(mac [6]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	// struct ifreq of linux/if.h: the name, and a struct sockaddr with the kind of hardware and its address
	var request [unix.IFNAMSIZ + 24]byte
	copy(request[:], interfaceName)
	binary.NativeEndian.PutUint16(request[unix.IFNAMSIZ:], unix.ARPHRD_ETHER)
	copy(request[unix.IFNAMSIZ+2:], mac[:])
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFHWADDR, uintptr(unsafe.Pointer(&request[0]))); errno != 0 {
		return os.NewSyscallError("SIOCSIFHWADDR", errno)
	}
	return nil
}

// configure makes the interface of the calling thread's network namespace a link, whatever it was before. It asks the kernel twice: what there is, and to
// change it.
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

// quietIPv6 has the kernel neither believe routers, nor make addresses of what they say, nor ask whether an address is taken before it uses it: there is
// nobody but the gateway, and the addresses are told.
func quietIPv6() error {
	folder := filepath.Join("/proc/sys/net/ipv6/conf", interfaceName)
	for _, name := range []string{"accept_ra", "autoconf", "accept_dad"} {
		if err := put(filepath.Join(folder, name), "0"); err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
	}
	return nil
}

// state is what the interface is.
type state struct {
	index     uint32
	mac       []byte
	addresses [][]byte // its own, as the kernel tells them, but for those that it makes itself
}

// stateOf finds it in what the kernel answers: the link, and then addresses.
func stateOf(answers []syscall.NetlinkMessage) (was state, err error) {
	for _, m := range answers {
		switch {
		case m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= unix.SizeofIfInfomsg:
			was.index = binary.NativeEndian.Uint32(m.Data[4:])
			attributes, err := syscall.ParseNetlinkRouteAttr(&m)
			if err != nil {
				return was, fmt.Errorf("understand the kernel: %w", err)
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

// changes are the requests that make the interface a link. It falls first: what the kernel itself had made for another network goes with that.
func changes(l agent.Link, was state) []request {
	var rs []request
	for _, a := range was.addresses {
		// One may go with another one of its network.
		rs = append(rs, request{what: "remove an address", message: message(unix.RTM_DELADDR, 0, a), fine: unix.EADDRNOTAVAIL})
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

// addAddress gives the interface an address.
func addAddress(index uint32, p netip.Prefix) request {
	a := p.Addr().AsSlice()
	family, flags := byte(unix.AF_INET6), byte(unix.IFA_F_NODAD)
	attributes := [][]byte{attribute(unix.IFA_LOCAL, a), attribute(unix.IFA_ADDRESS, a)}
	if p.Addr().Is4() {
		family, flags = unix.AF_INET, 0
		if p.Bits() < 31 { // a network of two has no broadcast
			attributes = append(attributes, attribute(unix.IFA_BROADCAST, broadcast(p)))
		}
	}
	return request{
		what:    "add " + p.String(),
		message: message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, addressHeader(family, byte(p.Bits()), flags, index), attributes...),
	}
}

// broadcast is the last address of an IPv4 network.
func broadcast(p netip.Prefix) []byte {
	a := p.Addr().As4()
	return binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(a[:])|(1<<(32-p.Bits())-1))
}

// addRoute has all that is not in the network go by its gateway.
func addRoute(index uint32, gateway netip.Addr) request {
	family := byte(unix.AF_INET6)
	if gateway.Is4() {
		family = unix.AF_INET
	}
	// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags
	header := []byte{family, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	return request{
		what: "go by " + gateway.String(),
		message: message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, header,
			attribute(unix.RTA_GATEWAY, gateway.AsSlice()), attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, index))),
	}
}
