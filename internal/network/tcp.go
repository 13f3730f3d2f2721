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
	// maxConnecting is the maximum number of connections of a machine that are being opened.
	// maxConnections is the maximum number of its open connections.
	maxConnecting  = 256
	maxConnections = 1024
	// connectTimeout is the maximum time for connecting to a remote address.
	connectTimeout = 30 * time.Second
)

// target returns the destination of a packet from the machine. The stack is the local end of the
// connection.
func target(id stack.TransportEndpointID) netip.AddrPort {
	return netip.AddrPortFrom(addr(id.LocalAddress.AsSlice()), id.LocalPort)
}

// acceptTCP handles a new connection from the machine. It completes the handshake only after the
// host has connected to the destination, so that the machine sees whether the connection succeeded.
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
	if to.Port() == dnsPort { // our resolver gets all DNS queries, for any destination
		if guest, ok := answer(); ok {
			s.serveNames(guest)
		}
		return
	}
	rec, names, ok := s.decide("tcp", to)
	if !ok {
		r.Complete(true)
		return
	}
	if !s.connections.tryAcquire() {
		s.refuse(rec, "too many connections")
		r.Complete(true)
		return
	}
	defer s.connections.release()
	host, err := s.dialTCP(to)
	if err != nil {
		r.Complete(true)
		s.fail(rec, err)
		return
	}
	guest, ok := answer()
	if !ok {
		host.Abort()
		s.fail(rec, errors.New("the machine did not complete the handshake"))
		return
	}
	abort := func() {
		host.Abort()
		s.reset(guest)
	}
	defer s.onClose(abort)()
	done := s.track(rec, names, abort)
	sent, received := splice(guest, host, &s.sent, &s.got)
	rec = done()
	rec.Sent, rec.Received = sent, received
	rec.Took = time.Since(rec.Time)
	s.records.record(rec)
}

// reset resets the end of a connection that leads to the machine. It does not wait, because the
// reset can't be sent while the machine does not read. If the stack is closed, Close sends it.
func (s *Stack) reset(guest guestStream) {
	if s.begin() {
		go func() {
			defer s.running.Done()
			guest.Abort()
		}()
	}
}

// dialTCP connects to an address that the policy has allowed.
func (s *Stack) dialTCP(to netip.AddrPort) (hostStream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, connectTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, "tcp", to)
	if err != nil {
		return hostStream{}, err
	}
	host, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return hostStream{}, errors.New("not a TCP connection")
	}
	host.SetKeepAliveConfig(keepAlive)
	return hostStream{host}, nil
}

// namesTimeout is the maximum time between queries on a TCP connection to the name server.
const namesTimeout = 10 * time.Second

// serveNames answers DNS queries over TCP, one query at a time. Each query has a length prefix of
// two bytes.
func (s *Stack) serveNames(guest guestStream) {
	defer guest.Close()
	if !s.askers.tryAcquire() {
		guest.Abort()
		return
	}
	defer s.askers.release()
	defer s.onClose(func() { s.reset(guest) })()
	for {
		guest.SetDeadline(time.Now().Add(namesTimeout))
		var length [2]byte
		if _, err := io.ReadFull(guest, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(guest, query); err != nil {
			return
		}
		if !s.asking.tryAcquire() {
			return
		}
		answer := s.dns.Answer(s.ctx, query, true)
		s.asking.release()
		if answer == nil || len(answer) > maxAnswer {
			return
		}
		guest.SetDeadline(time.Now().Add(namesTimeout))
		if _, err := guest.Write(binary.BigEndian.AppendUint16(nil, uint16(len(answer)))); err != nil {
			return
		}
		if _, err := guest.Write(answer); err != nil {
			return
		}
	}
}

const (
	dnsPort   = 53
	maxAnswer = 1<<16 - 1
)
