// Package network is the network of one machine: a TCP/IP stack of pyro's own at the other end of the machine's link.
//
// The machine sees one gateway, which is the way to everywhere and the name server. Nothing that it sends goes out as it is: each connection, each pair of UDP
// addresses and each echo ends here, is decided on by its address (package egress), and is made anew by the host, as any program of the host's would. What the
// machine is told of names comes from the host's resolver, without the addresses that it could not reach. No root and no interface of the host's is needed, and
// with the process all of it is gone. The stack is gVisor's.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
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

// Config says what network a machine has.
type Config struct {
	Link     net.Conn // whose packets are the machine's Ethernet frames; the stack closes it
	Plan     Plan
	Hostname string
	Policy   *egress.Policy
	Records  func(Record) // is told what the machine does, from many goroutines at once; may be nil

	// The world. nil: the host's.
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

	connections, flows, askers, asking, pings limit

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	held    registry[func()] // ends what is open
	open    registry[Record]
}

const nic = 1

// leaseTime is how long a machine may take an address that it asks for to be its own.
const leaseTime = 24 * time.Hour

// Start begins to serve a link. The caller must Close.
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
		cfg: cfg, own: &hostAddresses{},
		connections: newLimit(maxConnections), flows: newLimit(maxFlows), askers: newLimit(maxAskers), asking: newLimit(maxAsking),
		pings:   newLimit(maxPings),
		records: recorder{to: cfg.Records, refusals: map[Record]int{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.names = &names{policy: cfg.Policy, own: s.own.has, record: s.records.record, told: map[netip.Addr][]told{}}
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

// assemble makes the stack: it answers as everybody that the machine may want to talk to.
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

// tune fits TCP to a link that loses nothing, takes large packets and is short: more on its way would only be memory, of which a machine has 1,024 connections take at
// most some 640 MiB.
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

// accept tells whether the stack is to have a frame, and sees to it otherwise.
func (s *Stack) accept(frame []byte) bool {
	k := s.cfg.Plan.inspect(frame)
	switch k.fate {
	case taken:
		return true
	case refused:
		s.records.record(Record{Time: time.Now(), Protocol: k.protocol, Address: k.to.Addr(), Port: k.to.Port(), Refused: k.reason})
	case leased:
		s.lease(k)
	case echoed:
		s.echo(k, frame)
	}
	return false
}

// decide decides on an address. The record is of what is begun.
func (s *Stack) decide(protocol string, to netip.AddrPort) (Record, bool) {
	names := s.names.of(to.Addr())
	rec := Record{Time: time.Now(), Protocol: protocol, Address: to.Addr(), Port: to.Port()}
	if len(names) > 0 {
		rec.Name = names[0]
	}
	if p := s.cfg.Plan; to.Addr() == p.Gateway || to.Addr() == p.Gateway6 {
		s.refuse(rec, "the gateway serves names only")
		return rec, false
	}
	if to.Port() == dnsOverTLSPort {
		s.refuse(rec, "another name server")
		return rec, false
	}
	if r := s.cfg.Policy.Connect(to, names, s.own.has); r != nil {
		s.refuse(rec, r.Reason)
		return rec, false
	}
	return rec, true
}

func (s *Stack) refuse(rec Record, reason string) {
	rec.Refused = reason
	s.records.record(rec)
}

// fail records that the world could not be reached.
func (s *Stack) fail(rec Record, err error) {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	rec.Error, rec.Took = err.Error(), time.Since(rec.Time)
	s.records.record(rec)
}

// dialHost connects to an address. One that has become the host's own since it was decided on is found out once there is a connection, before anything passes by it.
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

// begin counts a goroutine, unless the stack is closed. It is to call running.Done.
func (s *Stack) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// hold has Close end something, until what it returns is called.
func (s *Stack) hold(end func()) (release func()) {
	release, ok := s.held.add(end)
	if !ok {
		end()
	}
	return release
}

// Open gives the connections that there are now, without what they carried.
func (s *Stack) Open() []Record { return s.open.list() }

// Close ends all connections and published ports and returns when nothing of the stack is left. Idempotent.
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
	s.link.Close() // a machine that takes nothing more keeps nobody
	s.abort()
	s.link.Wait() // now, for the stack waits for it with its lock held, which the last frame may need
	if s.stack != nil {
		s.stack.Close()
		s.stack.Wait()
	}
	s.records.close()
	return nil
}

// abort waits for all that runs, and ends what the machine is not going to answer any more, such as connections that are being made.
func (s *Stack) abort() {
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	for {
		if s.stack != nil {
			for _, e := range s.stack.RegisteredEndpoints() {
				e.Abort()
			}
		}
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func address(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }

// limit bounds how many of something there are.
type limit chan struct{}

func newLimit(n int) limit { return make(limit, n) }

// take tells whether there may be one more.
func (l limit) take() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l limit) give() { <-l }
