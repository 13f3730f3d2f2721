package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	// maxConnecting bounds how many connections of a machine are being made at a time, and maxConnections how many there are.
	maxConnecting  = 256
	maxConnections = 1024
	// connectPatience is how long the world may take to answer.
	connectPatience = 30 * time.Second
)

// target is where a packet of the machine's is to go.
func target(id stack.TransportEndpointID) netip.AddrPort {
	return netip.AddrPortFrom(addr(id.LocalAddress.AsSlice()), id.LocalPort)
}

// acceptTCP decides on a connection that the machine asks for, makes one to the world, and only then answers the machine, which so learns what the world says.
func (s *Stack) acceptTCP(r *tcp.ForwarderRequest) {
	if !s.begin() {
		r.Complete(true)
		return
	}
	defer s.running.Done()
	to := target(r.ID())
	answer := func() (guestStream, bool) {
		var queue waiter.Queue
		ep, err := r.CreateEndpoint(&queue)
		r.Complete(err != nil)
		if err != nil {
			return guestStream{}, false
		}
		return newGuestStream(&queue, ep), true
	}
	if to.Port() == dnsPort { // whichever server the machine believes in
		if guest, ok := answer(); ok {
			s.serveNames(guest)
		}
		return
	}
	rec, ok := s.decide("tcp", to)
	if !ok {
		r.Complete(true)
		return
	}
	if !s.connections.take() {
		s.refuse(rec, "too many connections")
		r.Complete(true)
		return
	}
	defer s.connections.give()
	host, err := s.dialTCP(to)
	if err != nil {
		r.Complete(true)
		s.fail(rec, err)
		return
	}
	guest, ok := answer()
	if !ok {
		host.Abort()
		s.fail(rec, errors.New("the machine did not go on"))
		return
	}
	defer s.hold(func() {
		guest.Abort()
		host.Abort()
	})()
	done, _ := s.open.add(rec)
	rec.Sent, rec.Received = splice(guest, host)
	done()
	rec.Took = time.Since(rec.Time)
	s.records.record(rec)
}

// dialTCP connects to an address that was decided on.
func (s *Stack) dialTCP(to netip.AddrPort) (hostStream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, connectPatience)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, "tcp", to)
	if err != nil {
		return hostStream{}, err
	}
	host, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return hostStream{}, errors.New("it is no TCP connection")
	}
	host.SetKeepAliveConfig(keepAlive)
	return hostStream{host}, nil
}

// namesPatience is how long a connection to the name server may be silent.
const namesPatience = 10 * time.Second

// serveNames answers questions by TCP, one after the other: each has its length in front, in two bytes.
func (s *Stack) serveNames(guest guestStream) {
	defer guest.Close()
	if !s.askers.take() {
		guest.Abort()
		return
	}
	defer s.askers.give()
	defer s.hold(guest.Abort)()
	for {
		guest.SetDeadline(time.Now().Add(namesPatience))
		var length [2]byte
		if _, err := io.ReadFull(guest, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(guest, query); err != nil {
			return
		}
		if !s.asking.take() {
			return
		}
		answer := s.dns.Answer(s.ctx, query, true)
		s.asking.give()
		if answer == nil || len(answer) > maxAnswer {
			return
		}
		guest.SetDeadline(time.Now().Add(namesPatience))
		if _, err := guest.Write(binary.BigEndian.AppendUint16(nil, uint16(len(answer)))); err != nil {
			return
		}
		if _, err := guest.Write(answer); err != nil {
			return
		}
	}
}

const (
	dnsPort        = 53
	dnsOverTLSPort = 853
	maxAnswer      = 1<<16 - 1
)
