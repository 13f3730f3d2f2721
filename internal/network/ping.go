package network

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/pyro-mcp/pyro/internal/network/dhcp"
)

const (
	// maxPings is the maximum number of echo requests in flight. Each request waits for a reply for
	// at most pingTimeout.
	maxPings    = 32
	pingTimeout = 10 * time.Second
)

// echo sends the machine's echo request from the host and forwards the reply to the machine. It
// uses a ping socket, which needs no privileges.
func (s *Stack) echo(k packet, frame []byte) {
	rec, _, ok := s.decide(k.protocol, k.to)
	if !ok {
		s.link.write(s.prohibited(k, frame))
		return
	}
	if !s.pings.tryAcquire() {
		return // the packet is lost, as on any busy network
	}
	if !s.begin() {
		s.pings.release()
		return
	}
	question := append([]byte(nil), k.body...)
	go func() {
		defer s.running.Done()
		defer s.pings.release()
		answer, err := s.exchange(k.to.Addr(), question)
		if err != nil {
			s.fail(rec, err)
			return
		}
		rec.Sent, rec.Received, rec.Took = int64(len(question)), int64(len(answer)), time.Since(rec.Time)
		s.records.record(rec)
		s.link.write(s.icmpFrame(k.to.Addr(), answer, k.to.Addr().Is6()))
	}()
}

// exchange sends an echo request and returns the reply. The reply has the same identifier as the
// machine's request.
func (s *Stack) exchange(to netip.Addr, question []byte) ([]byte, error) {
	network, listen := "udp4", "0.0.0.0" // for these names the icmp package opens an unprivileged ping socket
	if to.Is6() {
		network, listen = "udp6", "::"
	}
	conn, err := icmp.ListenPacket(network, listen)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer s.onClose(func() { conn.SetDeadline(time.Unix(1, 0)) })()
	conn.SetDeadline(time.Now().Add(pingTimeout))
	if _, err := conn.WriteTo(question, &net.UDPAddr{IP: to.AsSlice()}); err != nil {
		return nil, err
	}
	s.sent.Add(int64(len(question)))
	answer := make([]byte, len(question)+64)
	for {
		n, _, err := conn.ReadFrom(answer)
		if err != nil {
			return nil, err
		}
		if n < header.ICMPv4MinimumSize || answer[6] != question[6] || answer[7] != question[7] { // a reply with another sequence number
			continue
		}
		s.got.Add(int64(n))
		copy(answer[4:6], question[4:6]) // the kernel replaced the identifier with its own
		return answer[:n], nil
	}
}

// prohibited returns a frame with the ICMP error "communication administratively prohibited".
func (s *Stack) prohibited(k packet, frame []byte) []byte {
	original := frame[header.EthernetMinimumSize:]
	original = original[:min(len(original), len(original)-len(k.body)+header.ICMPv4MinimumSize)]
	message := make([]byte, header.ICMPv4MinimumSize, header.ICMPv4MinimumSize+len(original))
	if k.to.Addr().Is6() {
		message[0], message[1] = byte(header.ICMPv6DstUnreachable), 1
		return s.icmpFrame(s.cfg.Plan.Gateway6, append(message, original...), true)
	}
	message[0], message[1] = byte(header.ICMPv4DstUnreachable), 13
	return s.icmpFrame(s.cfg.Plan.Gateway, append(message, original...), false)
}

// icmpFrame returns a frame that sends an ICMP message to the machine. It sets the checksum of the
// message.
func (s *Stack) icmpFrame(from netip.Addr, message []byte, six bool) []byte {
	if six {
		frame := s.frame(header.IPv6ProtocolNumber, header.IPv6MinimumSize, message)
		ip := header.IPv6(frame[header.EthernetMinimumSize:])
		ip.Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(message)), TransportProtocol: header.ICMPv6ProtocolNumber, HopLimit: 64,
			SrcAddr: address(from), DstAddr: address(s.cfg.Plan.Address6.Addr()),
		})
		m := header.ICMPv6(ip.Payload())
		m.SetChecksum(0)
		m.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: ip.SourceAddress(), Dst: ip.DestinationAddress()}))
		return frame
	}
	frame := s.frame4(uint8(header.ICMPv4ProtocolNumber), from, s.cfg.Plan.Address.Addr(), message)
	m := header.ICMPv4(header.IPv4(frame[header.EthernetMinimumSize:]).Payload())
	m.SetChecksum(0)
	m.SetChecksum(header.ICMPv4Checksum(m, 0))
	return frame
}

// frame4 returns a frame that sends an IPv4 packet to the machine.
func (s *Stack) frame4(protocol uint8, from, to netip.Addr, payload []byte) []byte {
	frame := s.frame(header.IPv4ProtocolNumber, header.IPv4MinimumSize, payload)
	ip := header.IPv4(frame[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip)), TTL: 64, Protocol: protocol, SrcAddr: address(from), DstAddr: address(to),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	return frame
}

// frame returns a frame to the machine. The frame has headerSize zero bytes for an IP header, then
// the payload.
func (s *Stack) frame(kind tcpip.NetworkProtocolNumber, headerSize int, payload []byte) []byte {
	frame := make([]byte, header.EthernetMinimumSize+headerSize, header.EthernetMinimumSize+headerSize+len(payload))
	copy(frame, s.cfg.Plan.MAC)
	copy(frame[6:], s.cfg.Plan.GatewayMAC)
	binary.BigEndian.PutUint16(frame[12:], uint16(kind))
	return append(frame, payload...)
}

// answerDHCP replies to a DHCP request.
func (s *Stack) answerDHCP(k packet) {
	if len(k.body) < header.UDPMinimumSize {
		return
	}
	reply, toAll, ok := s.dhcp.Answer(k.body[header.UDPMinimumSize:])
	if !ok {
		return
	}
	to := s.cfg.Plan.Address.Addr()
	if toAll {
		to = broadcast
	}
	message := make([]byte, header.UDPMinimumSize, header.UDPMinimumSize+len(reply))
	u := header.UDP(message)
	u.Encode(&header.UDPFields{SrcPort: dhcp.ServerPort, DstPort: dhcp.ClientPort, Length: uint16(len(message) + len(reply))}) // no checksum: it is optional in IPv4
	s.link.write(s.frame4(uint8(header.UDPProtocolNumber), s.cfg.Plan.Gateway, to, append(message, reply...)))
}
