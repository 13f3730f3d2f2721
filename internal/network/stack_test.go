package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// packets returns the two ends of a machine's link.
func packets(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := func(fd int) net.Conn {
		f := os.NewFile(uintptr(fd), "link")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return conn(fds[0]), conn(fds[1])
}

// world simulates the Internet. It maps addresses to servers in this process.
type world struct {
	t  testing.TB
	mu sync.Mutex
	at map[string]string // keys such as "tcp 93.184.216.34:80"; the value is the address of a server
}

func (w *world) Dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	at, ok := w.at[network+" "+to.String()]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, at)
}

// serveTCP starts a TCP server for an address. It runs the callback for each connection.
func (w *world) serveTCP(to string, serve func(*net.TCPConn)) {
	w.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at["tcp "+to] = l.Addr().String()
}

// serveUDP starts a UDP echo server for an address.
func (w *world) serveUDP(to string) {
	w.t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo(b[:n], from)
		}
	}()
	w.t.Cleanup(func() {
		c.Close()
		<-done
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at["udp "+to] = c.LocalAddr().String()
}

// zone is a resolver that has a fixed set of names.
type zone map[string]string

func (z zone) LookupNetIP(_ context.Context, network, host string) (all []netip.Addr, err error) {
	for _, text := range strings.Fields(z[strings.TrimSuffix(host, ".")]) {
		if a := netip.MustParseAddr(text); network == "ip" || (network == "ip4") == a.Is4() {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Name: host, Err: "no such host", IsNotFound: true}
	}
	return all, nil
}

func missing(host string) error {
	return &net.DNSError{Name: host, Err: "no such host", IsNotFound: true}
}
func (z zone) LookupCNAME(_ context.Context, host string) (string, error) { return "", missing(host) }
func (z zone) LookupTXT(_ context.Context, host string) ([]string, error) { return nil, missing(host) }
func (z zone) LookupMX(_ context.Context, host string) ([]*net.MX, error) { return nil, missing(host) }
func (z zone) LookupNS(_ context.Context, host string) ([]*net.NS, error) { return nil, missing(host) }
func (z zone) LookupAddr(_ context.Context, address string) ([]string, error) {
	return nil, missing(address)
}
func (z zone) LookupSRV(_ context.Context, _, _, host string) (string, []*net.SRV, error) {
	return "", nil, missing(host)
}

// guest is a machine with a TCP/IP stack, on one end of a link.
type guest struct {
	t     testing.TB
	plan  Plan
	link  *link
	stack *stack.Stack
	*world
	network *Stack
	near    net.Conn // end of the link that the network uses

	mu      sync.Mutex
	records []Record
	frames  func([]byte) // receives a copy of each frame to the machine
}

// newGuest starts a machine that has a network.
func newGuest(t testing.TB, z zone, allow, deny []string) *guest {
	t.Helper()
	near, far := packets(t)
	g := &guest{t: t, plan: NewPlan(t.Name()), world: &world{t: t, at: map[string]string{}}, near: near}
	g.serve(z, allow, deny)
	g.link = &link{conn: far, mac: tcpip.LinkAddress(g.plan.MAC), accept: func(frame []byte) bool {
		g.mu.Lock()
		see := g.frames
		g.mu.Unlock()
		if see != nil {
			see(frame)
		}
		return true
	}}
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	must := func(err tcpip.Error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(g.stack.CreateNIC(1, ethernet.New(g.link)))
	for _, a := range []netip.Prefix{g.plan.Address, g.plan.Address6} {
		protocol := ipv4.ProtocolNumber
		if a.Addr().Is6() {
			protocol = ipv6.ProtocolNumber
		}
		with := tcpip.AddressWithPrefix{Address: address(a.Addr()), PrefixLen: a.Bits()}
		must(g.stack.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: with}, stack.AddressProperties{}))
	}
	g.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, Gateway: address(g.plan.Gateway), NIC: 1}, {Destination: header.IPv6EmptySubnet, Gateway: address(g.plan.Gateway6), NIC: 1},
	})
	t.Cleanup(func() {
		g.network.Close()
		near.Close()
		g.link.Close()
		g.link.Wait()
		g.stack.Close()
		g.stack.Wait()
	})
	return g
}

// serve gives the machine a new network. The previous network must be closed.
func (g *guest) serve(z zone, allow, deny []string) {
	g.t.Helper()
	policy, err := egress.New(allow, deny)
	if err != nil {
		g.t.Fatal(err)
	}
	if g.network != nil {
		unclosable{g.near}.Close()
		g.network.Close()
		g.near.SetDeadline(time.Time{})
	}
	if g.network, err = Start(Config{
		Link: unclosable{g.near}, Plan: g.plan, Hostname: "m-1", Policy: policy, Resolver: z, Dial: g.Dial,
		Records: func(r Record) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.records = append(g.records, r)
		},
	}); err != nil {
		g.t.Fatal(err)
	}
}

// unclosable is a connection that stays open after Close, so that another network can use it.
type unclosable struct{ net.Conn }

func (l unclosable) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

func full(to string) (tcpip.FullAddress, tcpip.NetworkProtocolNumber) {
	a := netip.MustParseAddrPort(to)
	protocol := ipv4.ProtocolNumber
	if a.Addr().Is6() {
		protocol = ipv6.ProtocolNumber
	}
	return tcpip.FullAddress{NIC: 1, Addr: address(a.Addr()), Port: a.Port()}, protocol
}

func (g *guest) dial(to string) (*gonet.TCPConn, error) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), testenv.Patience)
	defer cancel()
	a, protocol := full(to)
	return gonet.DialContextTCP(ctx, g.stack, a, protocol)
}

func (g *guest) connected(to string) *gonet.TCPConn {
	g.t.Helper()
	c, err := g.dial(to)
	if err != nil {
		g.t.Fatalf("connect to %s: %v", to, err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// listen accepts connections to a port of the machine until the test ends.
func (g *guest) listen(port uint16) *gonet.TCPListener {
	g.t.Helper()
	l, err := gonet.ListenTCP(g.stack, tcpip.FullAddress{NIC: 1, Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { l.Close() })
	return l
}

// said waits for a record that contains all the given texts.
func (g *guest) said(parts ...string) Record {
	g.t.Helper()
	for began := time.Now(); time.Since(began) < testenv.Patience; time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		for _, r := range g.records {
			text := fmt.Sprintf("%s %s %s %d refused=%s error=%s", r.Protocol, r.Name, r.Address, r.Port, r.Refused, r.Error)
			found := true
			for _, p := range parts {
				found = found && strings.Contains(text, p)
			}
			if found {
				g.mu.Unlock()
				return r
			}
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.t.Fatalf("no record of %q in %+v", parts, g.records)
	return Record{}
}

// ask sends a UDP query to the name server with the given address.
func (g *guest) ask(server, name string, kind dnsmessage.Type) dnsmessage.Message {
	g.t.Helper()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET},
	}}
	b, err := q.Pack()
	if err != nil {
		g.t.Fatal(err)
	}
	to, protocol := full(server)
	c, err := gonet.DialUDP(g.stack, nil, &to, protocol)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testenv.Patience))
	c.Write(b)
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil {
		g.t.Fatalf("ask %s: %v", server, err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(answer[:n]); err != nil {
		g.t.Fatal(err)
	}
	return m
}

const example = "93.184.216.34"

func TestTCP(t *testing.T) {
	g := newGuest(t, zone{"example.com": example}, nil, nil)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	g.serveTCP(example+":80", func(c *net.TCPConn) {
		got, err := io.ReadAll(c) // reads until the machine has closed its direction
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("received %d bytes, %v", len(got), err)
		}
		c.Write(content)
	})
	if m := g.ask(g.plan.Gateway.String()+":53", "example.com.", dnsmessage.TypeA); len(m.Answers) != 1 {
		t.Errorf("%+v", m)
	}
	c := g.connected(example + ":80")
	go func() {
		c.Write(content)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("received %d bytes, %v", len(got), err)
	}
	if sent, since := g.network.Sent(); sent != int64(len(content)) || since.IsZero() || g.network.Received() != int64(len(content)) {
		t.Errorf("%d and %d bytes were counted while the connection is open", sent, g.network.Received())
	}
	c.Close()
	if r := g.said("tcp example.com " + example + " 80 refused= error="); r.Sent != int64(len(content)) || r.Received != int64(len(content)) || r.Took <= 0 {
		t.Errorf("%+v", r)
	}
	if open := g.network.Open(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
}

// TestConnectionEnd checks that the other end of a connection sees resets and refusals.
func TestConnectionEnd(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	if _, err := g.dial(example + ":81"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("closed port: %v", err)
	}
	g.said("81", "error=connection refused")

	g.serveTCP(example+":1", func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		c.SetLinger(0)
	})
	c := g.connected(example + ":1")
	c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("reset by the server: %v", err)
	}

	ended := make(chan error, 1)
	g.serveTCP(example+":2", func(c *net.TCPConn) {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	})
	g.connected(example + ":2")
	open := g.network.Open()
	for began := time.Now(); (len(open) != 1 || open[0].Port != 2) && time.Since(began) < testenv.Patience; open = g.network.Open() {
		time.Sleep(time.Millisecond)
	}
	if len(open) != 1 || open[0].Port != 2 {
		t.Errorf("open: %+v", open)
	}
	g.stack.Close() // resets all connections of the machine
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset by the machine: %v", err)
	}
}

func TestRefused(t *testing.T) {
	g := newGuest(t, zone{
		"rebind.test": "127.0.0.1 10.0.0.1 169.254.169.254", "half.test": "10.0.0.1 " + example, "six.test": "2606:2800::1 ::ffff:10.0.0.1",
	}, nil, []string{"1.2.3.0/24", "*.bad.test"})
	for to, reason := range map[string]string{
		"10.0.0.1:80": "private", "169.254.169.254:80": "metadata", "1.2.3.4:80": "denied by 1.2.3.0/24", "192.0.2.1:443": "documentation",
		"[fd00::1]:80": "private", "[64:ff9b::7f00:1]:80": "loopback", "[2001:db8::1]:1": "documentation",
		g.plan.Gateway.String() + ":80": "gateway", "[" + g.plan.Gateway6.String() + "]:80": "gateway", "93.184.216.34:853": "another name server",
	} {
		// The destination would refuse the connection too. The test must see that the policy
		// refuses it first.
		g.mu.Lock()
		g.at["tcp "+to] = "127.0.0.1:1"
		g.mu.Unlock()
		if c, err := g.dial(to); err == nil {
			c.Close()
			t.Errorf("%s was reached", to)
		}
		a := netip.MustParseAddrPort(to)
		g.said("tcp", a.Addr().String(), fmt.Sprint(a.Port()), "refused=", reason)
	}
	for _, name := range []string{"rebind.test.", "x.bad.test."} {
		if m := g.ask(g.plan.Gateway.String()+":53", name, dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused || len(m.Answers) != 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	g.said("dns x.bad.test", "refused=denied by *.bad.test")
	g.said("dns rebind.test 169.254.169.254", "refused=metadata address")
	if m := g.ask("8.8.8.8:53", "half.test.", dnsmessage.TypeA); len(m.Answers) != 1 {
		t.Errorf("another server: %+v", m)
	}
	if m := g.ask("[2001:4860:4860::8888]:53", "six.test.", dnsmessage.TypeAAAA); len(m.Answers) != 1 {
		t.Errorf("another server: %+v", m)
	}
}

func TestUDP(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	g.serveUDP(example + ":123")
	a, protocol := full(example + ":123")
	c, err := gonet.DialUDP(g.stack, nil, &a, protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testenv.Patience))
	for _, size := range []int{1, 1400, 9000, 60_000} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, maxDatagram)
		if n, err := c.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
			t.Errorf("%d bytes: %d, %v", size, n, err)
		}
	}
	a, _ = full("10.1.1.1:123")
	refused, err := gonet.DialUDP(g.stack, nil, &a, protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	refused.Write([]byte("x"))
	for began := time.Now(); ; { // polls, because in this stack an error does not wake a blocked reader
		refused.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err = refused.Read(make([]byte, 1)); err != nil && strings.Contains(err.Error(), "refused") {
			break
		}
		if time.Since(began) > testenv.Patience {
			t.Fatalf("no error reaches the machine: %v", err)
		}
	}
	g.said("udp  10.1.1.1 123 refused=private address")
	testenv.Eventually(t, "all bytes are counted while the flow is open", func() bool {
		sent, _ := g.network.Sent()
		return sent == 70401 && g.network.Received() == 70401
	})
	g.network.Close()
	if r := g.said("udp  " + example + " 123 refused= error="); r.Sent != r.Received || r.Sent != 70401 {
		t.Errorf("%+v", r)
	}
}

// TestAllowList checks that allow rules make the network refuse all other addresses and names.
func TestAllowList(t *testing.T) {
	g := newGuest(t, zone{"good.test": example, "other.test": "93.184.216.35"}, []string{"good.test:443"}, nil)
	served := func(c *net.TCPConn) { c.Write([]byte("hello")) }
	for _, to := range []string{example + ":443", example + ":80", "93.184.216.35:443"} {
		g.serveTCP(to, served)
	}
	if _, err := g.dial(example + ":443"); err == nil {
		t.Error("reachable without a lookup")
	}
	if m := g.ask(g.plan.Gateway.String()+":53", "other.test.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("%+v", m)
	}
	if m := g.ask(g.plan.Gateway.String()+":53", "GOOD.test.", dnsmessage.TypeA); len(m.Answers) != 1 {
		t.Errorf("%+v", m)
	}
	if got, err := io.ReadAll(g.connected(example + ":443")); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	for _, to := range []string{example + ":80", "93.184.216.35:443"} {
		if _, err := g.dial(to); err == nil {
			t.Errorf("%s is reached", to)
		}
	}
}

func TestPublish(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	l := g.listen(8080)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				got, _ := io.ReadAll(c)
				c.Write(bytes.ToUpper(got))
			}()
		}
	}()
	p, err := g.network.Publish(0, 8080)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Host))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.Write(bytes.Repeat([]byte("x"), 1<<18))
			c.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(c); err != nil || len(got) != 1<<18 || got[7] != 'X' {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if _, err := g.network.Publish(p.Host, 8080); fault.KindOf(err) != fault.Exists {
		t.Errorf("port in use: %v", err)
	}
	nobody, err := g.network.Publish(0, 9)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", nobody.Host))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("closed port in the machine: %v", err)
	}
	held, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	held.Write([]byte("x"))
	time.Sleep(20 * time.Millisecond)
	p.Close()
	if _, err := held.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("connection after Close: %v", err)
	}
	if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Host)); err == nil {
		c.Close()
		t.Error("the port is open after Close")
	}
	if sent, _ := g.network.Sent(); sent != 0 || g.network.Received() != 0 {
		t.Errorf("%d bytes of a published port were counted", sent)
	}
}

// TestServiceThatNeverReads checks that a service that does not read blocks the client of a
// published port until the port is closed. The memory in use must stay limited.
func TestServiceThatNeverReads(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	l := g.listen(8080)
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	p, err := g.network.Publish(0, 8080)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, wrote := make([]byte, 1<<20), 0
	for wrote < 1<<30 {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.Write(b)
		wrote += n
		if err != nil {
			break
		}
	}
	if wrote > 64<<20 {
		t.Errorf("%d MiB accepted for a service that reads nothing", wrote>>20)
	}
	p.Close()
	c.SetDeadline(time.Now().Add(testenv.Patience))
	if _, err := c.Read(b); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Close: %v", err)
	}
	(<-accepted).Close()
}

// TestCloseDoesNotWaitForMachine checks that Close does not wait for the machine. The machine opens
// connections without completing their handshake, and does not read.
func TestCloseDoesNotWaitForMachine(t *testing.T) {
	near, far := packets(t)
	defer far.Close()
	policy, err := egress.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, at: map[string]string{}}
	w.serveTCP(example+":80", func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	p := NewPlan(t.Name())
	s, err := Start(Config{Link: near, Plan: p, Policy: policy, Resolver: zone{}, Dial: w.Dial})
	if err != nil {
		t.Fatal(err)
	}
	for port := range uint16(2000) {
		syn := make([]byte, header.TCPMinimumSize)
		header.TCP(syn).Encode(&header.TCPFields{SrcPort: 1000 + port, DstPort: 80, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 1000})
		sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, address(p.Address.Addr()), address(netip.MustParseAddr(example)), uint16(len(syn)))
		header.TCP(syn).SetChecksum(^header.TCP(syn).CalculateChecksum(sum))
		if _, err := far.Write(frame4(6, p.Address.Addr(), netip.MustParseAddr(example), syn, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > testenv.Patience {
		t.Errorf("it took %v", took)
	}
}

// TestGuestThatNeverReads checks that a server blocks if the machine does not read. Closing the
// stack must end the connection. The memory in use must stay limited.
func TestGuestThatNeverReads(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	var wrote int
	done := make(chan struct{})
	g.serveTCP(example+":80", func(c *net.TCPConn) {
		defer close(done)
		b := make([]byte, 1<<20)
		for wrote < 1<<30 {
			c.SetWriteDeadline(time.Now().Add(2 * time.Second))
			n, err := c.Write(b)
			wrote += n
			if err != nil {
				return
			}
		}
	})
	g.connected(example + ":80")
	<-done
	if wrote > 64<<20 {
		t.Errorf("%d MiB accepted for a machine that reads nothing", wrote>>20)
	}
}
