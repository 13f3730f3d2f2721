package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// request is an rtnetlink message.
type request struct {
	what    string // purpose of the request, for errors
	message []byte
	ignore  unix.Errno // an error that is expected and ignored; 0: none
}

// maxAnswer is the buffer size for answers, in bytes. The kernel never sends more in one message.
const maxAnswer = 32 << 10

// ask sends all requests in one message and reads all answers. It returns the first error. The
// kernel also handles the requests after a failed one.
func ask(fd int, requests []request) (answers []syscall.NetlinkMessage, failed error) {
	var all []byte
	for i, r := range requests {
		binary.NativeEndian.PutUint32(r.message[8:], uint32(i)) // the kernel copies this sequence number into its answers
		all = append(all, r.message...)
	}
	if err := unix.Sendto(fd, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	for left := len(requests); left > 0; {
		b := make([]byte, maxAnswer) // not reused, because the parsed answers refer to it
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			return nil, fmt.Errorf("parse the kernel's answer: %w", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				left--
				if len(m.Data) < 4 || int64(m.Header.Seq) >= int64(len(requests)) {
					return nil, fmt.Errorf("parse the kernel's answer: %w", unix.EBADMSG)
				}
				r, errno := requests[m.Header.Seq], unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
				if errno != 0 && errno != r.ignore && failed == nil {
					failed = fmt.Errorf("%s: %w", r.what, errno)
				}
			default:
				answers = append(answers, m)
			}
		}
	}
	return answers, failed
}

// message creates a request that asks for an acknowledgement. ask sets the sequence number.
func message(kind, flags uint16, header []byte, attributes ...[]byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, 128)
	b = append(b, header...)
	for _, a := range attributes {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	return b
}

// attribute creates an attribute, padded to a multiple of 4 bytes.
func attribute(kind uint16, value []byte) []byte {
	n := unix.SizeofRtAttr + len(value)
	b := make([]byte, (n+3)&^3)
	binary.NativeEndian.PutUint16(b, uint16(n))
	binary.NativeEndian.PutUint16(b[2:], kind)
	copy(b[unix.SizeofRtAttr:], value)
	return b
}

// linkHeader returns a struct ifinfomsg: family, type, index, flags and the mask of flags to
// change.
func linkHeader(index, flags, mask uint32) []byte {
	b := make([]byte, 4, unix.SizeofIfInfomsg)
	for _, v := range []uint32{index, flags, mask} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// addressHeader returns a struct ifaddrmsg: family, prefix length, flags, scope and index.
func addressHeader(family, bits, flags byte, index uint32) []byte {
	return binary.NativeEndian.AppendUint32([]byte{family, bits, flags, unix.RT_SCOPE_UNIVERSE}, index)
}
