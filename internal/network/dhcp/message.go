package dhcp

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// Offsets and values in a message: a BOOTP header, a magic cookie and options (RFC 2131, section
// 2).
const (
	atFlags    = 10
	atClient   = 12 // the address that the client already has
	atYours    = 16 // the address that the server assigns to the client
	atRelay    = 24
	atMAC      = 28
	atCookie   = 236
	atOptions  = 240
	minReply   = 300 // BOOTP clients ignore shorter messages
	maxRequest = 1500

	bootRequest, bootReply = 1, 2
	ethernet, macSize      = 1, 6
	cookie                 = 0x63825363
	flagBroadcast          = 1 << 15
)

// Message kinds.
const (
	discover byte = 1
	offer    byte = 2
	ask      byte = 3 // DHCPREQUEST
	ack      byte = 5
	nak      byte = 6
	inform   byte = 8
)

// Options (RFC 2132).
const (
	optionPad       byte = 0
	optionMask      byte = 1
	optionRouter    byte = 3
	optionDNS       byte = 6
	optionHostname  byte = 12
	optionMTU       byte = 26
	optionBroadcast byte = 28
	optionAddress   byte = 50
	optionLease     byte = 51
	optionKind      byte = 53
	optionServer    byte = 54
	optionID        byte = 61
	optionEnd       byte = 255
)

// request contains the parts of a client's message that the server uses.
type request struct {
	header    []byte // the bytes before the cookie
	kind      byte
	mac       []byte
	client    netip.Addr // 0.0.0.0 if the client has no address
	broadcast bool
	options   map[byte][]byte
}

// parse reads a request that an Ethernet client sent directly, not through a relay.
func parse(b []byte) (request, bool) {
	if len(b) < atOptions || len(b) > maxRequest || b[0] != bootRequest || b[1] != ethernet || b[2] != macSize ||
		binary.BigEndian.Uint32(b[atCookie:]) != cookie || binary.BigEndian.Uint32(b[atRelay:]) != 0 {
		return request{}, false
	}
	options, ok := parseOptions(b[atOptions:])
	if !ok || len(options[optionKind]) != 1 {
		return request{}, false
	}
	for _, o := range []byte{optionAddress, optionServer} {
		if value, is := options[o]; is && len(value) != 4 {
			return request{}, false
		}
	}
	return request{
		header:    b[:atCookie],
		kind:      options[optionKind][0],
		mac:       b[atMAC : atMAC+macSize],
		client:    netip.AddrFrom4([4]byte(b[atClient:])),
		broadcast: binary.BigEndian.Uint16(b[atFlags:])&flagBroadcast != 0,
		options:   options,
	}, true
}

// parseOptions reads options up to the end option, which can be missing. If an option occurs more
// than once, its values are concatenated (RFC 3396). parseOptions ignores options in the name
// fields of the header, because the few options that the server uses always fit into the main
// field.
func parseOptions(b []byte) (map[byte][]byte, bool) {
	options := map[byte][]byte{}
	for len(b) > 0 && b[0] != optionEnd {
		if b[0] == optionPad {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return nil, false
		}
		code, end := b[0], 2+int(b[1])
		options[code] = append(options[code], b[2:end]...)
		b = b[end:]
	}
	return options, true
}

// address returns the value of an option as an address. parse has already checked that the value
// has 4 bytes.
func (r request) address(option byte) netip.Addr { return netip.AddrFrom4([4]byte(r.options[option])) }

// reply encodes a reply. The reply contains a lease only if it assigns an address. A NAK contains
// no configuration.
func (s Server) reply(r request, kind byte, yours bool) []byte {
	b := make([]byte, atOptions, minReply)
	copy(b, r.header[:8]) // hardware type, transaction ID
	b[0], b[3] = bootReply, 0
	copy(b[atFlags:], r.header[atFlags:atClient])
	copy(b[atMAC:atMAC+macSize], r.mac)
	binary.BigEndian.PutUint32(b[atCookie:], cookie)
	if kind == ack {
		copy(b[atClient:], r.client.AsSlice())
	}
	if yours {
		copy(b[atYours:], s.Client.Addr().AsSlice())
	}

	b = option(b, optionKind, kind)
	b = option(b, optionServer, s.Gateway.AsSlice()...)
	if id := r.options[optionID]; len(id) <= math.MaxUint8 { // some clients match replies by this ID (RFC 6842)
		b = option(b, optionID, id...)
	}
	if yours {
		b = option(b, optionLease, binary.BigEndian.AppendUint32(nil, seconds(s.Lease))...)
	}
	if kind != nak {
		b = s.configuration(b)
	}
	b = append(b, optionEnd)
	return append(b, make([]byte, max(0, minReply-len(b)))...)
}

// configuration appends all options except the client's address and the lease time.
func (s Server) configuration(b []byte) []byte {
	hosts := uint32(math.MaxUint32) >> s.Client.Bits() // mask of the host part, 0 for a /32
	address := s.Client.Addr().As4()
	b = option(b, optionMask, binary.BigEndian.AppendUint32(nil, ^hosts)...)
	if s.Client.Bits() <= 30 {
		b = option(b, optionBroadcast, binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(address[:])|hosts)...)
	}
	b = option(b, optionRouter, s.Gateway.AsSlice()...)
	b = option(b, optionDNS, s.DNS.AsSlice()...)
	if s.MTU != 0 {
		b = option(b, optionMTU, binary.BigEndian.AppendUint16(nil, s.MTU)...)
	}
	return option(b, optionHostname, []byte(s.Hostname[:min(len(s.Hostname), math.MaxUint8)])...)
}

// option appends an option of at most 255 bytes. It appends nothing if the value is empty.
func option(b []byte, code byte, value ...byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(append(b, code, byte(len(value))), value...)
}

// seconds converts a duration to the format of DHCP. The maximum value means forever.
func seconds(d time.Duration) uint32 {
	return uint32(min(max(d/time.Second, 0), math.MaxUint32))
}
