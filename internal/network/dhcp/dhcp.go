// Package dhcp implements the server side of DHCP for IPv4 (RFC 2131) on a link with a single
// client. The client always gets the same address. The server computes each answer from the request
// and the configuration, so it keeps no state.
package dhcp

import (
	"bytes"
	"net"
	"net/netip"
	"time"
)

// UDP ports of DHCP servers and clients.
const (
	ServerPort = 67
	ClientPort = 68
)

// Server is the DHCP configuration of the single client. Its methods are safe for concurrent use.
type Server struct {
	Client   netip.Prefix     // the client's IPv4 address with its prefix length
	MAC      net.HardwareAddr // MAC address of the client, 6 bytes: the server ignores requests from other clients.
	Gateway  netip.Addr       // IPv4 address: default route and server identifier.
	DNS      netip.Addr       // IPv4 address: omitted if zero.
	MTU      uint16           // MTU in bytes; if 0, replies do not contain it.
	Hostname string           // at most 255 bytes; if empty, replies do not contain it.
	Lease    time.Duration    // lease time, in whole seconds; 136 years means forever.
}

// Answer returns the reply to a request. Both are UDP payloads. If broadcast is true, the caller
// must send the reply to 255.255.255.255, otherwise to the client's address. In both cases the
// Ethernet destination is the client's MAC address. ok is false if the request needs no reply: it
// is malformed, comes from another client, is for another server, or is of a kind that has no
// reply.
func (s Server) Answer(request []byte) (reply []byte, broadcast, ok bool) {
	r, ok := parse(request)
	if !ok || !bytes.Equal(r.mac, s.MAC) {
		return nil, false, false
	}
	if server := r.options[optionServer]; server != nil && r.address(optionServer) != s.Gateway {
		return nil, false, false // the client chose another server
	}
	kind, yours := s.decide(r)
	if kind == 0 {
		return nil, false, false
	}
	return s.reply(r, kind, yours), s.broadcast(r, kind), true
}

// decide returns the kind of the reply, or 0 for no reply. yours reports whether the reply assigns
// the client its address.
func (s Server) decide(r request) (kind byte, yours bool) {
	switch r.kind {
	case discover:
		return offer, true
	case inform: // the client is configured already and only asks for options
		return ack, false
	case ask:
		// A client that selects an offer or restarts sends the address as an option. A client that
		// renews its lease sends it in the header.
		wanted := r.client
		if r.options[optionAddress] != nil {
			wanted = r.address(optionAddress)
		}
		if wanted == s.Client.Addr() {
			return ack, true
		}
		return nak, false
	}
	return 0, false
}

// broadcast reports whether the client can't receive packets at its address yet. Either the client
// has another address, or it is not configured and asks for a broadcast.
func (s Server) broadcast(r request, kind byte) bool {
	return kind == nak || r.client != s.Client.Addr() && (r.broadcast || r.kind == inform)
}
