// Package network implements the network of a machine. It runs gVisor's user-mode TCP/IP stack at
// the host's end of the machine's link.
//
// The machine sees one gateway, which routes all its traffic and is its name server. The stack
// terminates each TCP connection, UDP flow and echo request. If the policy (package egress) allows
// the address, the stack opens its own connection from the host, like any other program. The host's
// resolver resolves names. Answers do not contain addresses that the machine can't reach. The stack
// needs no root privileges and no network interface on the host. When the process ends, nothing
// remains on the host.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/pyro-mcp/pyro/internal/network/dhcp"
	"github.com/pyro-mcp/pyro/internal/network/dns"
	"github.com/pyro-mcp/pyro/internal/network/egress"
)

// Config describes the network of a machine.
type Config struct {
	Link     net.Conn // a packet socket that carries the machine's Ethernet frames; the stack closes it
	Plan     Plan
	Hostname string
	Policy   *egress.Policy // see SetPolicy
	Records  func(Record)   // called concurrently; can be nil

	// Tests replace these fields. If a field is nil, the stack uses the host's resolver or network.
	Resolver dns.Resolver
	Dial     func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
}

// Stack is a running network. It is safe for concurrent use.
type Stack struct {
	cfg     Config
	ctx     context.Context
	cancel  context.CancelFunc
	stack   *stack.Stack
	link    *link
	dns     *dns.Server
	dhcp    dhcp.Server
	names   *names
	own     *hostAddresses
	records recorder
	started time.Time
	sent    atomic.Int64 // see Sent
	got     atomic.Int64 // see Received
	policy  atomic.Pointer[egress.Policy]

	connections, flows, askers, asking, pings limit

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	held    registry[func()] // called by Close; the functions do not block
	open    registry[openConnection]
}

const nic = 1

// leaseTime is the duration of the machine's DHCP lease.
const leaseTime = 24 * time.Hour

// resetTimeout is the maximum time that Close waits for a machine that does not read its link.
const resetTimeout = time.Second

// Start starts the network on a link. The caller must call Close.
func Start(cfg Config) (*Stack, error) {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Dial == nil {
		cfg.Dial = dialHost
	}
	if cfg.Records == nil {
		cfg.Records = func(Record) {}
	}
	s := &Stack{
		cfg: cfg, own: &hostAddresses{}, started: time.Now(),
		connections: newLimit(maxConnections), flows: newLimit(maxFlows), askers: newLimit(maxAskers), asking: newLimit(maxAsking),
		pings:   newLimit(maxPings),
		records: recorder{to: cfg.Records, refusals: map[Record]int{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.policy.Store(cfg.Policy)
	s.names = &names{policy: &s.policy, own: s.own.has, record: s.records.record, resolved: map[netip.Addr][]resolution{}}
	s.dns = &dns.Server{Resolver: cfg.Resolver, Filter: s.names, IPv6: true}
	s.dhcp = dhcp.Server{
		Client: cfg.Plan.Address, MAC: cfg.Plan.MAC, Gateway: cfg.Plan.Gateway, DNS: cfg.Plan.Gateway, MTU: MTU, Hostname: cfg.Hostname, Lease: leaseTime,
	}
	s.link = &link{conn: cfg.Link, mac: tcpip.LinkAddress(cfg.Plan.GatewayMAC), accept: s.accept}
	if err := s.assemble(); err != nil {
		s.Close()
		return nil, fmt.Errorf("start network: %w", err)
	}
	return s, nil
}

// assemble builds the gVisor stack. The stack accepts packets to all addresses, so that it can
// terminate every connection.
func (s *Stack) assemble() error {
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	if err := s.tune(); err != nil {
		return errors.New(err.String())
	}
	p := s.cfg.Plan
	if err := s.stack.CreateNIC(nic, ethernet.New(s.link)); err != nil {
		return errors.New(err.String())
	}
	for _, a := range []struct {
		gateway, machine netip.Addr
		bits             int
		protocol         tcpip.NetworkProtocolNumber
	}{{p.Gateway, p.Address.Addr(), p.Address.Bits(), ipv4.ProtocolNumber}, {p.Gateway6, p.Address6.Addr(), p.Address6.Bits(), ipv6.ProtocolNumber}} {
		mine := tcpip.ProtocolAddress{Protocol: a.protocol, AddressWithPrefix: tcpip.AddressWithPrefix{Address: address(a.gateway), PrefixLen: a.bits}}
		if err := s.stack.AddProtocolAddress(nic, mine, stack.AddressProperties{}); err != nil {
			return errors.New(err.String())
		}
		if err := s.stack.AddStaticNeighbor(nic, a.protocol, address(a.machine), tcpip.LinkAddress(p.MAC)); err != nil {
			return errors.New(err.String())
		}
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	s.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s.stack, 0, maxConnecting, s.acceptTCP).HandlePacket)
	s.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s.stack, s.acceptUDP).HandlePacket)
	if err := s.stack.SetPromiscuousMode(nic, true); err != nil {
		return errors.New(err.String())
	}
	if err := s.stack.SetSpoofing(nic, true); err != nil {
		return errors.New(err.String())
	}
	return nil
}

// tune configures TCP for a link that loses no packets, with large packets and low latency. Larger
// buffers would only use more memory: 1,024 connections need up to 640 MiB.
func (s *Stack) tune() tcpip.Error {
	sack, moderate, wait := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true), tcpip.TCPTimeWaitTimeoutOption(time.Second)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 128 << 10, Max: 256 << 10}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 128 << 10, Max: 256 << 10}
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &wait, &receive, &send} {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return err
		}
	}
	return nil
}

// accept reports whether the stack should get a frame. It handles all other frames itself.
func (s *Stack) accept(frame []byte) bool {
	k := s.cfg.Plan.inspect(frame)
	switch k.verdict {
	case accepted:
		return true
	case refused:
		s.records.record(Record{Time: time.Now(), Protocol: k.protocol, Address: k.to.Addr(), Port: k.to.Port(), Refused: k.reason})
	case dhcpRequest:
		s.answerDHCP(k)
	case echoRequest:
		s.echo(k, frame)
	}
	return false
}

// decide asks the policy whether the machine is allowed to connect to an address. The returned
// record describes the new connection, and names are the names of the address. If the policy
// refuses the address, decide has already logged the record.
func (s *Stack) decide(protocol string, to netip.AddrPort) (rec Record, names []string, ok bool) {
	names = s.names.of(to.Addr())
	rec = Record{Time: time.Now(), Protocol: protocol, Address: to.Addr(), Port: to.Port()}
	if len(names) > 0 {
		rec.Name = names[0]
	}
	if p := s.cfg.Plan; to.Addr() == p.Gateway || to.Addr() == p.Gateway6 {
		s.refuse(rec, "the gateway serves only DNS")
		return rec, names, false
	}
	if to.Port() == egress.DNSOverTLSPort {
		s.refuse(rec, "another name server")
		return rec, names, false
	}
	if r := s.policy.Load().Connect(to, names, s.own.has); r != nil {
		s.refuse(rec, r.Reason)
		return rec, names, false
	}
	return rec, names, true
}

func (s *Stack) refuse(rec Record, reason string) {
	rec.Refused = reason
	s.records.record(rec)
}

// fail logs a record of a connection that could not be opened.
func (s *Stack) fail(rec Record, err error) {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	rec.Error, rec.Took = err.Error(), time.Since(rec.Time)
	s.records.record(rec)
}

// dialHost connects to an address. It fails if the host got this address after the policy had
// allowed it. The check happens after the connection is open but before any data is sent.
func dialHost(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err
	}
	local, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	here, err := deliversHere(remote.Addr().Unmap().WithZone(""))
	if local.Addr().Unmap() == remote.Addr().Unmap() || here || err != nil {
		conn.Close()
		return nil, errors.New("it is an address of the host")
	}
	return conn, nil
}

// begin registers a new goroutine. The goroutine must call running.Done. If the stack is closed,
// begin returns false.
func (s *Stack) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// onClose registers a callback that Close calls. Calling release removes the callback again. If the
// stack is already closed, onClose calls the callback immediately.
func (s *Stack) onClose(end func()) (release func()) {
	release, ok := s.held.add(end)
	if !ok {
		end()
	}
	return release
}

// Sent returns how many bytes the machine has sent to other computers by TCP, UDP and pings since
// the stack was started. It counts payload. It counts neither DNS queries, which the host's
// resolver sends, nor data of published ports.
func (s *Stack) Sent() (bytes int64, since time.Time) { return s.sent.Load(), s.started }

// Received returns how many bytes the machine has received since the stack was started. It counts
// the same traffic as Sent.
func (s *Stack) Received() int64 { return s.got.Load() }

// Close closes all connections and published ports, then waits until all goroutines have ended. It
// is idempotent.
func (s *Stack) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	for _, end := range s.held.close() {
		end()
	}
	unblock := time.AfterFunc(resetTimeout, s.link.Close) // if the machine does not read
	s.abortEndpoints()                                    // while the machine can still receive the resets
	unblock.Stop()
	s.link.Close()
	s.abort()
	s.link.Wait() // must precede stack.Close, because that holds a lock while it waits for the reader, and the last frame might need the lock
	if s.stack != nil {
		s.stack.Close()
		s.stack.Wait()
	}
	s.records.close()
	return nil
}

// abort waits for all goroutines. Until then it aborts endpoints, including connections whose
// handshake the machine has not completed.
func (s *Stack) abort() {
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	for {
		s.abortEndpoints()
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Stack) abortEndpoints() {
	if s.stack == nil {
		return
	}
	for _, e := range s.stack.RegisteredEndpoints() {
		e.Abort()
	}
}

func address(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }

// limit is a counting semaphore.
type limit chan struct{}

func newLimit(n int) limit { return make(limit, n) }

// tryAcquire acquires a slot if one is free, without blocking.
func (l limit) tryAcquire() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l limit) release() { <-l }
