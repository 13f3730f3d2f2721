package main

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ip describes an IP packet. Fields that are not set get correct values in the packet.
type ip struct {
	from, to netip.Addr
	protocol byte
	options  []byte // IPv4 options
	id       uint16
	fragment uint16 // IPv4 flags and fragment offset
	length   uint16 // overrides the length field
	first    byte   // overrides the version and the header length
	ttl      byte
	wrong    bool // corrupts the header checksum
	body     []byte
}

const more = 0x2000 // the flag "more fragments"

func (p ip) bytes() []byte {
	if p.ttl == 0 {
		p.ttl = 64
	}
	if p.to.Is6() {
		b := make([]byte, 40, 40+len(p.body))
		b[0], b[6], b[7] = 0x60, p.protocol, p.ttl
		binary.BigEndian.PutUint16(b[4:], or(p.length, uint16(len(p.body))))
		copy(b[8:], p.from.AsSlice())
		copy(b[24:], p.to.AsSlice())
		if p.first != 0 {
			b[0] = p.first
		}
		return append(b, p.body...)
	}
	b := make([]byte, 20, 60+len(p.body))
	b = append(b, p.options...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	b[0], b[8], b[9] = 0x40|byte(len(b)/4), p.ttl, p.protocol
	binary.BigEndian.PutUint16(b[2:], or(p.length, uint16(len(b)+len(p.body))))
	binary.BigEndian.PutUint16(b[4:], p.id)
	binary.BigEndian.PutUint16(b[6:], p.fragment)
	copy(b[12:], p.from.AsSlice())
	copy(b[16:], p.to.AsSlice())
	if p.first != 0 {
		b[0] = p.first
	}
	n := sum(b, 0)
	if p.wrong {
		n ^= 0x5555
	}
	binary.BigEndian.PutUint16(b[10:], n)
	return append(b, p.body...)
}

func or(a, b uint16) uint16 {
	if a != 0 {
		return a
	}
	return b
}

// sum computes the Internet checksum of b. The initial value is n.
func sum(b []byte, n uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		n += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		n += uint32(b[0]) << 8
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return ^uint16(n)
}

// summed sets the checksum in the payload, at the given offset. The checksum also covers the pseudo
// header.
func (p ip) summed(at int) ip {
	body := append([]byte(nil), p.body...)
	binary.BigEndian.PutUint16(body[at:], 0)
	var pseudo uint32
	if p.protocol != unix.IPPROTO_ICMP {
		for _, a := range [][]byte{p.from.AsSlice(), p.to.AsSlice()} {
			for ; len(a) > 0; a = a[2:] {
				pseudo += uint32(binary.BigEndian.Uint16(a))
			}
		}
		pseudo += uint32(p.protocol) + uint32(len(body))
	}
	binary.BigEndian.PutUint16(body[at:], sum(body, pseudo))
	p.body = body
	return p
}

const syn, fin, rst, push, ack, urgent = 2, 1, 4, 8, 16, 32

// tcp adds a TCP segment to the packet. If wrong is true, the checksum of the segment is corrupt.
func (p ip) tcp(from, to uint16, flags byte, content string, wrong bool) ip {
	b := make([]byte, 20, 20+len(content))
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	b[7], b[12], b[13], b[14], b[15] = 1, 5<<4, flags, 0xff, 0xff
	p.protocol, p.body = unix.IPPROTO_TCP, append(b, content...)
	p = p.summed(16)
	if wrong {
		p.body[16] ^= 0x55
	}
	return p
}

// udp adds a UDP datagram to the packet. If length is not 0, it overrides the length field of the
// datagram.
func (p ip) udp(from, to uint16, content string, length uint16) ip {
	b := make([]byte, 8, 8+len(content))
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint16(b[4:], or(length, uint16(8+len(content))))
	p.protocol, p.body = unix.IPPROTO_UDP, append(b, content...)
	return p.summed(6)
}

// icmp adds an ICMP or ICMPv6 message to the packet.
func (p ip) icmp(kind, code byte, content []byte) ip {
	p.protocol = unix.IPPROTO_ICMP
	if p.to.Is6() {
		p.protocol = unix.IPPROTO_ICMPV6
	}
	p.body = append([]byte{kind, code, 0, 0}, content...)
	return p.summed(2)
}

// echo adds an echo request to the packet.
func (p ip) echo(content string) ip {
	kind := byte(8)
	if p.to.Is6() {
		kind = 128
	}
	return p.icmp(kind, 0, append([]byte{0x66, 0x66, 0, 1}, content...))
}

// pieces splits a packet into fragments of the given size. The size must be a multiple of 8 bytes.
func (p ip) pieces(size int) (all []ip) {
	for at := 0; at < len(p.body); at += size {
		piece := p
		piece.body = p.body[at:min(at+size, len(p.body))]
		piece.fragment = uint16(at / 8)
		if at+size < len(p.body) {
			piece.fragment |= more
		}
		all = append(all, piece)
	}
	return all
}

// frame returns an Ethernet frame that is addressed to the gateway.
func (w *wire) frame(kind uint16, content []byte) []byte {
	b := make([]byte, 14, 14+len(content))
	if w.routers == nil {
		copy(b, "\xff\xff\xff\xff\xff\xff")
	}
	copy(b, w.routers)
	copy(b[6:], w.mac)
	binary.BigEndian.PutUint16(b[12:], kind)
	return append(b, content...)
}

// frames returns one frame per packet.
func (w *wire) frames(packets ...ip) (all [][]byte) {
	for _, p := range packets {
		kind := uint16(unix.ETH_P_IP)
		if p.to.Is6() {
			kind = unix.ETH_P_IPV6
		}
		all = append(all, w.frame(kind, p.bytes()))
	}
	return all
}

// arp returns an ARP request (operation 1) or reply (operation 2).
func (w *wire) arp(operation byte, from, to netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, operation}
	b = append(append(b, w.mac...), from.AsSlice()...)
	b = append(append(b, make([]byte, 6)...), to.AsSlice()...)
	f := w.frame(unix.ETH_P_ARP, b)
	copy(f, "\xff\xff\xff\xff\xff\xff")
	return f
}
