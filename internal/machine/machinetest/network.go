package machinetest

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// network checks the link of a machine. The machine must use its own addresses, even if another
// machine was restored from the same template. Without a link the machine must have only loopback.
func (s suite) network(t *testing.T) {
	f := s.driver.Features()
	if !f.Isolated {
		if f.Network {
			t.Error("a driver without isolation has the feature Network")
		}
		return
	}
	if seen := s.renewed(t, usual).shell(t, "tail -n +3 /proc/net/dev | grep -vw lo: || true"); seen != "" {
		t.Errorf("without a link it has %s", seen)
	}
	if !f.Network {
		return
	}
	// Both machines are from the same template. The test checks the first one again after the
	// second has started.
	one, two := LinkOf(1), LinkOf(2)
	g, near := s.linked(t, one)
	g.sends(t, near, one)
	other, far := s.linked(t, two)
	other.sends(t, far, two)
	g.sends(t, near, one)
	if resolv := other.shell(t, "cat /etc/resolv.conf"); resolv != "nameserver "+two.Gateway.String() {
		t.Errorf("its resolver asks %q", resolv)
	}
	if routes := other.shell(t, "grep -c eth0 /proc/net/route"); routes != "2" {
		t.Errorf("it has %s routes", routes)
	}
	other.answers(t)
}

// LinkOf returns the network config of a test machine. The addresses differ for each n.
func LinkOf(n byte) machine.Network {
	at := netip.AddrFrom4([4]byte{10, 200, n, 2})
	at6 := netip.AddrFrom16([16]byte{0: 0xfd, 7: n, 15: 2})
	return machine.Network{
		MAC: net.HardwareAddr{2, 0, 0, 0, n, 2}, GatewayMAC: net.HardwareAddr{2, 0, 0, 0, n, 1}, MTU: 9000,
		Address: netip.PrefixFrom(at, 24), Gateway: at.Prev(), Address6: netip.PrefixFrom(at6, 64), Gateway6: at6.Prev(),
	}
}

// savedNetwork saves a machine with a link and resumes it on another link with another identity.
func (s suite) savedNetwork(t *testing.T) {
	s.savable(t)
	if !s.driver.Features().Network {
		t.Skip("it has no network")
	}
	one, two := LinkOf(1), LinkOf(2)
	g, near := s.linked(t, one)
	g.sends(t, near, one)
	dir := g.save(t)
	spec := s.spec(t, usual)
	spec.Saved = dir
	other, far := s.linkedAs(t, spec, two, one.MAC)
	other.sends(t, far, two)
	if routes := other.shell(t, "grep -c eth0 /proc/net/route"); routes != "2" {
		t.Errorf("it has %s routes", routes)
	}
	if err := g.Machine.(machine.Pauser).Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	g.sends(t, near, one)
	other.sends(t, far, two)
}

// linked starts a machine with a link and renews it. The result near is the other end of the link.
func (s suite) linked(t *testing.T, n machine.Network) (g *guest, near net.Conn) {
	t.Helper()
	return s.linkedAs(t, s.spec(t, usual), n)
}

// linkedAs does the same with a given spec. The spec can resume a saved machine. The parameter
// oldMACs lists MAC addresses that the machine can use before it is renewed.
func (s suite) linkedAs(t *testing.T, spec machine.Spec, n machine.Network, oldMACs ...net.HardwareAddr) (g *guest, near net.Conn) {
	t.Helper()
	near, far, err := machine.NewLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	n.Link = far
	spec.Network = &n
	g = s.startAs(t, spec)
	far.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.identity = client.NewIdentity(g.spec.ID)
	g.identity.Network = &client.Network{
		MAC: n.MAC, Address: n.Address, Gateway: n.Gateway, Address6: n.Address6, Gateway6: n.Gateway6, DNS: []netip.Addr{n.Gateway}, MTU: n.MTU,
	}
	if err := g.agent.Renew(ctx, g.identity); err != nil {
		t.Fatal(err)
	}
	dropOldFrames(t, near, append(oldMACs, n.MAC))
	return g, near
}

// dropOldFrames drops the frames that a machine sent before it acknowledged the renewal. Until then
// the machine's kernel has the MAC address of the saved machine or of a template, and repeats old
// requests. These frames reach only the stack at the other end of this link, and that stack
// forwards no MAC addresses.
func dropOldFrames(t *testing.T, near net.Conn, may []net.HardwareAddr) {
	t.Helper()
	raw, err := near.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 64<<10)
	err = raw.Read(func(fd uintptr) bool {
		for {
			k, err := unix.Read(int(fd), frame) // the socket is non-blocking
			switch {
			case err == unix.EINTR:
			case err != nil || k < 14:
				return true
			case !bytes.Equal(frame[12:14], []byte{0x86, 0xdd}) && !slices.ContainsFunc(may, func(mac net.HardwareAddr) bool { return bytes.Equal(frame[6:12], mac) }):
				t.Errorf("got a frame before Renew from %x: % x", frame[6:12], frame[12:k])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sends makes the machine send a packet to its gateway, and checks the addresses in the frame.
func (g *guest) sends(t *testing.T, near net.Conn, n machine.Network) {
	t.Helper()
	go g.exec(0, "bash", "-c", "for i in 1 2 3; do echo x >/dev/udp/"+n.Gateway.String()+"/9; done")
	near.SetReadDeadline(time.Now().Add(patience))
	for frame := make([]byte, 64<<10); ; {
		k, err := near.Read(frame)
		if err != nil || k < 14 {
			t.Fatalf("%d bytes, %v", k, err)
		}
		if !bytes.Equal(frame[6:12], n.MAC) {
			t.Errorf("got a frame from %x: % x", frame[6:12], frame[12:k])
		}
		switch at := frame[14:k]; {
		case frame[12] == 8 && frame[13] == 6 && bytes.Equal(at[14:18], n.Address.Addr().AsSlice()) && bytes.Equal(at[24:28], n.Gateway.AsSlice()):
			return // an ARP request for the gateway
		case frame[12] == 8 && frame[13] == 0 && bytes.Equal(at[12:16], n.Address.Addr().AsSlice()) && bytes.Equal(at[16:20], n.Gateway.AsSlice()):
			return
		}
	}
}
