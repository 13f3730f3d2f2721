package dhcp

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// A message is a header of BOOTP, a cookie, and options (RFC 2131, section 2).
const (
	atFlags    = 10
	atClient   = 12 // the address that a client has
	atYours    = 16 // the address that it gets
	atRelay    = 24
	atMAC      = 28
	atCookie   = 236
	atOptions  = 240
	minReply   = 300 // what a client of BOOTP takes for whole
	maxRequest = 1500

	bootRequest, bootReply = 1, 2
	ethernet, macSize      = 1, 6
	cookie                 = 0x63825363
	flagBroadcast          = 1 << 15
)

// The kinds of messages.
const (
	discover byte = 1
	offer    byte = 2
	ask      byte = 3 // DHCPREQUEST
	ack      byte = 5
	nak      byte = 6
	inform   byte = 8
)

// The options (RFC 2132).
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

// request is what matters of a client's message.
type request struct {
	header    []byte // up to the cookie
	kind      byte
	mac       []byte
	client    netip.Addr // 0.0.0.0 for a client without an address
	broadcast bool
	options   map[byte][]byte
}

// parse reads a request of an Ethernet client on this very link.
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

// parseOptions reads options up to their end, which may be missing. The parts of one that comes more than once belong together (RFC 3396). Options in the
// header's fields for names are not read: the few that matter here always fit.
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

// address is the value of an option that was found to have 4 bytes.
func (r request) address(option byte) netip.Addr { return netip.AddrFrom4([4]byte(r.options[option])) }

// reply writes an answer. One that gives no address gives no lease either, and a refusal has nothing but who refuses.
func (s Server) reply(r request, kind byte, yours bool) []byte {
	b := make([]byte, atOptions, minReply)
	copy(b, r.header[:8]) // hardware, transaction
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
	if id := r.options[optionID]; len(id) <= math.MaxUint8 { // a client may know its answers by it (RFC 6842)
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

// configuration appends what a client is told beside its address.
func (s Server) configuration(b []byte) []byte {
	hosts := uint32(math.MaxUint32) >> s.Client.Bits() // the bits of an address that tell a host, none for a network of one
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

// option appends one of at most 255 bytes, or none where there is no value.
func option(b []byte, code byte, value ...byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(append(b, code, byte(len(value))), value...)
}

// seconds is a duration as DHCP has it, where the largest means for ever.
func seconds(d time.Duration) uint32 {
	return uint32(min(max(d/time.Second, 0), math.MaxUint32))
}
