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

// network checks that a machine has a link where it is given one, that it is on it who it is told to be, be it restored from the template that another one was
// restored from, and that without one it has its own loopback only.
func (s suite) network(t *testing.T) {
	f := s.driver.Features()
	if !f.Isolated {
		if f.Network {
			t.Error("what is not isolated can't be kept to a network")
		}
		return
	}
	if seen := s.renewed(t, usual).shell(t, "tail -n +3 /proc/net/dev | grep -vw lo: || true"); seen != "" {
		t.Errorf("without a link it has %s", seen)
	}
	if !f.Network {
		return
	}
	// Two of one template, and the first of them once more under another identity.
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

// linkOf makes a machine's network, each number another one.
func LinkOf(n byte) machine.Network {
	at := netip.AddrFrom4([4]byte{10, 200, n, 2})
	at6 := netip.AddrFrom16([16]byte{0: 0xfd, 7: n, 15: 2})
	return machine.Network{
		MAC: net.HardwareAddr{2, 0, 0, 0, n, 2}, GatewayMAC: net.HardwareAddr{2, 0, 0, 0, n, 1}, MTU: 9000,
		Address: netip.PrefixFrom(at, 24), Gateway: at.Prev(), Address6: netip.PrefixFrom(at6, 64), Gateway6: at6.Prev(),
	}
}

// savedNetwork saves a machine with a link, and has it go on on another one, as somebody else.
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

// linked starts a machine with a link and renews it. near is the other end of the link.
func (s suite) linked(t *testing.T, n machine.Network) (g *guest, near net.Conn) {
	t.Helper()
	return s.linkedAs(t, s.spec(t, usual), n)
}

// linkedAs does so with a machine that may have been somebody else, before it is renewed.
func (s suite) linkedAs(t *testing.T, spec machine.Spec, n machine.Network, former ...net.HardwareAddr) (g *guest, near net.Conn) {
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
	dropFormer(t, near, append(former, n.MAC))
	return g, near
}

// dropFormer takes from a link what a machine has sent on it before its renewal was acknowledged. Until then its kernel has its former MAC, or a template's, and asks again by
// itself what it had asked when it was saved. Nobody hears it but the stack at the other end of this one link, which lets no MAC out.
func dropFormer(t *testing.T, near net.Conn, may []net.HardwareAddr) {
	t.Helper()
	raw, err := near.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 64<<10)
	err = raw.Read(func(fd uintptr) bool {
		for {
			k, err := unix.Read(int(fd), frame) // which never waits
			switch {
			case err == unix.EINTR:
			case err != nil || k < 14:
				return true
			case !bytes.Equal(frame[12:14], []byte{0x86, 0xdd}) && !slices.ContainsFunc(may, func(mac net.HardwareAddr) bool { return bytes.Equal(frame[6:12], mac) }):
				t.Errorf("before it was renewed a frame comes from %x: % x", frame[6:12], frame[12:k])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sends has the machine send something to its gateway, and looks who it is in what comes.
func (g *guest) sends(t *testing.T, near net.Conn, n machine.Network) {
	t.Helper()
	go g.exec(5*time.Second, "bash", "-c", "for i in 1 2 3; do echo x >/dev/udp/"+n.Gateway.String()+"/9; done")
	near.SetReadDeadline(time.Now().Add(patience))
	for frame := make([]byte, 64<<10); ; {
		k, err := near.Read(frame)
		if err != nil || k < 14 {
			t.Fatalf("%d bytes, %v", k, err)
		}
		if !bytes.Equal(frame[6:12], n.MAC) {
			t.Errorf("a frame comes from %x: % x", frame[6:12], frame[12:k])
		}
		switch at := frame[14:k]; {
		case frame[12] == 8 && frame[13] == 6 && bytes.Equal(at[14:18], n.Address.Addr().AsSlice()) && bytes.Equal(at[24:28], n.Gateway.AsSlice()):
			return // it asks for its gateway
		case frame[12] == 8 && frame[13] == 0 && bytes.Equal(at[12:16], n.Address.Addr().AsSlice()) && bytes.Equal(at[16:20], n.Gateway.AsSlice()):
			return
		}
	}
}
