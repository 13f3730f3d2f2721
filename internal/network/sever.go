package network

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// Connection is a TCP connection of the machine's, as the machine has it.
type Connection struct {
	Far  netip.AddrPort `json:"far"`  // the other end; the gateway's where it is one to a published port
	Port uint16         `json:"port"` // the machine's
}

// Connections gives all that there are now.
func (s *Stack) Connections() (all []Connection) {
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

// Sever has the machine learn that connections are gone which it had with a stack that is no more: one that only waits for what is sent to it would wait for ever. Each is
// sent what begins a connection. A kernel asks back whether that was meant, and is told by this stack, which knows of none, that it was not.
func (s *Stack) Sever(all []Connection) {
	for _, c := range all {
		if c.Far.IsValid() && c.Far.Port() != 0 && c.Port != 0 {
			s.link.write(s.begins(c))
		}
	}
}

// begins makes a frame that begins a connection from the far end.
func (s *Stack) begins(c Connection) []byte {
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
