package network

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// deliversHere asks the kernel whether the host would deliver packets for an address locally. The
// host does so for the addresses of its interfaces and for ranges with a local route. If there is
// no route to an address, the result is false.
func deliversHere(a netip.Addr) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return false, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return false, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, routeRequest(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return false, os.NewSyscallError("recvfrom", err)
	}
	return isLocalRoute(answer[:n])
}

// routeRequest returns an RTM_GETROUTE message for an address (see rtnetlink(7)).
func routeRequest(a netip.Addr) []byte {
	family, to := byte(unix.AF_INET), a.AsSlice()
	if a.Is6() {
		family = unix.AF_INET6
	}
	size := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(to)
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number and port ID
	b = append(b, family, byte(8*len(to)))
	b = append(b, make([]byte, unix.SizeofRtMsg-2)...)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(to)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, to...)
}

// noRoute lists the kernel's errors for addresses whose packets the kernel drops or rejects.
var noRoute = []syscall.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL}

// isLocalRoute parses the kernel's answer to routeRequest.
func isLocalRoute(answer []byte) (bool, error) {
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		switch {
		case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
			errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			if slices.Contains(noRoute, errno) {
				return false, nil
			}
			return false, os.NewSyscallError("RTM_GETROUTE", errno)
		case m.Header.Type == unix.RTM_NEWROUTE && len(m.Data) >= unix.SizeofRtMsg:
			const typeOffset = 7 // offset of rtm_type in struct rtmsg
			return slices.Contains([]byte{unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST}, m.Data[typeOffset]), nil
		}
	}
	return false, errors.New("the kernel returned no route")
}
