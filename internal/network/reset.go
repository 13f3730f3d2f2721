package network

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// Connection is a TCP connection as the machine sees it.
type Connection struct {
	Far  netip.AddrPort `json:"far"`  // the remote end, or the gateway for connections to a published port
	Port uint16         `json:"port"` // the machine's port
}

// Connections returns the open TCP connections.
func (s *Stack) Connections() (all []Connection) {
	defer s.link.dropUnread()()
	for _, e := range s.stack.RegisteredEndpoints() {
		one, ok := e.(tcpip.Endpoint)
		if !ok {
			continue
		}
		info, ok := one.Info().(*stack.TransportEndpointInfo)
		if !ok || info.TransProto != tcp.ProtocolNumber || info.ID.RemotePort == 0 || info.ID.LocalAddress.Len() == 0 {
			continue
		}
		all = append(all, Connection{Far: target(info.ID), Port: info.ID.RemotePort})
	}
	return all
}

// ResetConnections resets TCP connections that the machine opened with an earlier stack. Without a
// reset, a program that only reads would block forever. ResetConnections sends a SYN segment to the
// machine for each connection. The machine answers with an ACK. This stack does not know the
// connection, so it replies with RST.
func (s *Stack) ResetConnections(all []Connection) {
	for _, c := range all {
		if c.Far.IsValid() && c.Far.Port() != 0 && c.Port != 0 {
			s.link.write(s.synFrame(c))
		}
	}
}

// synFrame returns a frame with a SYN segment. The segment appears to come from the remote end of
// the connection.
func (s *Stack) synFrame(c Connection) []byte {
	segment := make(header.TCP, header.TCPMinimumSize)
	segment.Encode(&header.TCPFields{SrcPort: c.Far.Port(), DstPort: c.Port, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 1})
	from, to := c.Far.Addr(), s.cfg.Plan.Address.Addr()
	if from.Is6() {
		to = s.cfg.Plan.Address6.Addr()
	}
	segment.SetChecksum(^segment.CalculateChecksum(header.PseudoHeaderChecksum(header.TCPProtocolNumber, address(from), address(to), uint16(len(segment)))))
	if from.Is6() {
		frame := s.frame(header.IPv6ProtocolNumber, header.IPv6MinimumSize, segment)
		header.IPv6(frame[header.EthernetMinimumSize:]).Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(segment)), TransportProtocol: header.TCPProtocolNumber, HopLimit: 64, SrcAddr: address(from), DstAddr: address(to),
		})
		return frame
	}
	return s.frame4(uint8(header.TCPProtocolNumber), from, to, segment)
}
