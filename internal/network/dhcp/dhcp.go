// Package dhcp is the server's side of DHCP for IPv4 (RFC 2131) on a link with one client, which always gets the same address. There is nothing to remember:
// each answer follows from the request and the configuration.
package dhcp

import (
	"bytes"
	"net"
	"net/netip"
	"time"
)

// The ports of UDP that a server and a client have.
const (
	ServerPort = 67
	ClientPort = 68
)

// Server is the configuration of the one client that there is. Its methods are safe for concurrent use.
type Server struct {
	Client   netip.Prefix     // the client's IPv4 address, with the length of its network's prefix
	MAC      net.HardwareAddr // the client's, 6 bytes; nobody else is answered
	Gateway  netip.Addr       // the default route and the server's own identity, IPv4
	DNS      netip.Addr       // the resolver, IPv4; none is told where it is zero
	MTU      uint16           // of the link, in bytes; none is told where it is zero
	Hostname string           // the client's, of at most 255 bytes; none is told where it is empty
	Lease    time.Duration    // how long the address is the client's, told in whole seconds; 136 years are for ever
}

// Answer is what is sent for a request, both of them payloads of UDP. A broadcast goes to 255.255.255.255, anything else to the client's address, both to the
// client's MAC. It is not ok where there is nothing to send: the request is not of the client, not for this server, malformed, or of a kind that has no answer.
func (s Server) Answer(request []byte) (reply []byte, broadcast, ok bool) {
	r, ok := parse(request)
	if !ok || !bytes.Equal(r.mac, s.MAC) {
		return nil, false, false
	}
	if server := r.options[optionServer]; server != nil && r.address(optionServer) != s.Gateway {
		return nil, false, false // the client has chosen another
	}
	kind, yours := s.decide(r)
	if kind == 0 {
		return nil, false, false
	}
	return s.reply(r, kind, yours), s.broadcast(r, kind), true
}

// decide is the kind of the answer, zero for none, and whether it gives the client its address.
func (s Server) decide(r request) (kind byte, yours bool) {
	switch r.kind {
	case discover:
		return offer, true
	case inform: // the client has an address from elsewhere, and asks for the rest
		return ack, false
	case ask:
		// A client that chooses an offer, or was restarted, names the address in an option; one that renews its lease has it already.
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

// broadcast tells whether the client can't be reached under its address, as it has another or says that it takes nothing before it is configured.
func (s Server) broadcast(r request, kind byte) bool {
	return kind == nak || r.client != s.Client.Addr() && (r.broadcast || r.kind == inform)
}
