package guest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

var (
	both = agent.Link{
		MAC: [6]byte{2, 0, 10, 170, 3, 2}, Address: netip.MustParsePrefix("10.170.3.2/24"), Gateway: netip.MustParseAddr("10.170.3.1"),
		Address6: netip.MustParsePrefix("fd00:170:3::2/64"), Gateway6: netip.MustParseAddr("fd00:170:3::1"), MTU: 1400,
	}
	four = agent.Link{
		MAC: [6]byte{2, 0, 10, 170, 9, 77}, Address: netip.MustParsePrefix("10.170.9.77/20"), Gateway: netip.MustParseAddr("10.170.0.1"), MTU: 1500,
	}
)

// said describes a request as the kernel parses it: type, flags, header in hex and attributes.
func said(t *testing.T, r request) string {
	t.Helper()
	messages, err := syscall.ParseNetlinkMessage(r.message)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%s: %d messages, %v", r.what, len(messages), err)
	}
	m := messages[0]
	var header int
	switch m.Header.Type {
	case unix.RTM_NEWLINK:
		header = unix.SizeofIfInfomsg
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		m.Header.Type, header = unix.RTM_NEWADDR, unix.SizeofIfAddrmsg // the parser knows only RTM_NEWADDR
	case unix.RTM_NEWROUTE:
		header = unix.SizeofRtMsg
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		t.Fatalf("%s: %v", r.what, err)
	}
	s := fmt.Sprintf("%#x %s", m.Header.Flags, hex.EncodeToString(m.Data[:header]))
	for _, a := range attributes {
		s += fmt.Sprintf(" %d=%x", a.Attr.Type, a.Value)
	}
	return s
}

func TestNetlinkRequests(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the expectations are for little-endian machines")
	}
	before := state{index: 3, mac: both.MAC[:], addresses: [][]byte{addressHeader(unix.AF_INET, 24, 0, 3)}}
	for name, c := range map[string]struct {
		link agent.Link
		was  state
		want []string
	}{
		"both, with its MAC and an address there": {both, before, []string{
			"0x5 0218000003000000",
			"0x5 00000000030000000000000001000000",
			"0x5 00000000030000000100000001000000 4=78050000",
			"0x505 0218000003000000 2=0aaa0302 1=0aaa0302 4=0aaa03ff",
			"0x505 02000000fe04000100000000 5=0aaa0301 4=03000000",
			"0x505 0a40020003000000 2=fd000170000300000000000000000002 1=fd000170000300000000000000000002",
			"0x505 0a000000fe04000100000000 5=fd000170000300000000000000000001 4=03000000",
		}},
		"IPv4, with another MAC": {four, state{index: 3, mac: both.MAC[:]}, []string{
			"0x5 00000000030000000000000001000000 1=02000aaa094d",
			"0x5 00000000030000000100000001000000 4=dc050000",
			"0x505 0214000003000000 2=0aaa094d 1=0aaa094d 4=0aaa0fff",
			"0x505 02000000fe04000100000000 5=0aaa0001 4=03000000",
		}},
	} {
		var got []string
		for _, r := range changes(c.link, c.was) {
			got = append(got, said(t, r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	if r := addAddress(1, netip.MustParsePrefix("10.0.0.0/31")); strings.Contains(said(t, r), " 4=") {
		t.Errorf("a network of two has a broadcast: %s", said(t, r))
	}
}

func TestNameServers(t *testing.T) {
	if got := nameServers([]string{"10.0.0.1", "fd00::1"}); got != "nameserver 10.0.0.1\nnameserver fd00::1\n" {
		t.Errorf("%q", got)
	}
}

// TestResolvConf checks that Renew replaces the file or link if the machine has a network. Without
// a network, Renew must not change it.
func TestResolvConf(t *testing.T) {
	identity := &agentv1.RenewRequest{MachineId: strings.Repeat("0", 32), Hostname: "m-1"}
	network := &agentv1.Network{Dns: []string{"10.0.0.1"}}
	for name, prepare := range map[string]func(path string) error{
		"none": func(string) error { return nil },
		"a file": func(path string) error {
			return os.WriteFile(path, []byte("nameserver 192.168.100.200\nsearch x\n"), 0o644)
		},
		"a dangling link": func(path string) error { return os.Symlink("../run/systemd/resolve/stub-resolv.conf", path) },
		"a link out":      func(path string) error { return os.Symlink("/etc/other", path) },
	} {
		dir := t.TempDir()
		path, other := filepath.Join(dir, "etc/resolv.conf"), filepath.Join(dir, "etc/other")
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(other, []byte("kept"), 0o644), prepare(path)); err != nil {
			t.Fatal(err)
		}
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		was := describe(path)
		if err := identify(int(root.Fd()), identity); err != nil || describe(path) != was {
			t.Errorf("%s, without a network: %v; it was %q, and is %q", name, err, was, describe(path))
		}
		with := &agentv1.RenewRequest{MachineId: identity.MachineId, Hostname: identity.Hostname, Network: network}
		if err := identify(int(root.Fd()), with); err != nil || describe(path) != "-rw-r--r-- nameserver 10.0.0.1\n" {
			t.Errorf("%s: %v; it is %q", name, err, describe(path))
		}
		if describe(other) != "-rw-r--r-- kept" {
			t.Errorf("%s: target of the link: got %q, want it unchanged", name, describe(other))
		}
	}
}

// describe returns the mode and content of a file, or the empty string if the file does not exist.
func describe(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	content, _ := os.ReadFile(path)
	return info.Mode().String() + " " + string(content)
}

// newNetwork moves the goroutine to its own thread with an empty network namespace. When the
// goroutine ends, the thread ends too.
func newNetwork(t *testing.T) {
	t.Helper()
	testenv.NeedsRoot(t, "make network namespaces")
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		testenv.Lacks(t, "a network namespace can't be made here: ", err)
	}
}

// newInterface creates an interface with the name eth0.
func newInterface(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, dummy := ask(fd, []request{{what: "make a dummy", message: message(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkHeader(0, 0, 0),
		attribute(unix.IFLA_IFNAME, []byte(interfaceName)), attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, []byte("dummy"))))}})
	if dummy == nil {
		return
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		testenv.Lacks(t, "network interfaces: ", dummy, "; ", err)
	}
	t.Cleanup(func() { tun.Close() })
	tap, err := unix.NewIfreq(interfaceName)
	if err != nil {
		t.Fatal(err)
	}
	tap.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(int(tun.Fd()), unix.TUNSETIFF, tap); err != nil {
		testenv.Lacks(t, "network interfaces: ", dummy, "; TUNSETIFF: ", err)
	}
}

func TestConfigure(t *testing.T) {
	newNetwork(t)
	if err := configure(both); err == nil || !strings.Contains(err.Error(), "no network interface") {
		t.Fatalf("without an interface: %v", err)
	}
	newInterface(t)
	_, err := os.Stat("/proc/sys/net/ipv6")
	six := err == nil
	if !six {
		t.Log("this kernel has no IPv6")
	}
	another := both
	another.Gateway, another.MTU = netip.MustParseAddr("10.170.3.254"), 1300
	same := four
	same.Address, same.MAC = netip.MustParsePrefix("10.170.9.78/20"), both.MAC
	restored := both // only the MAC differs
	restored.MAC = [6]byte{2, 7, 7, 7, 7, 7}
	e := &execEnv{}
	for i, l := range []agent.Link{both, restored, four, both, another, another, same} {
		if !six {
			l.Address6, l.Gateway6 = netip.Prefix{}, netip.Addr{}
		}
		if err := e.connect(network(l)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if e.link != l {
			t.Errorf("%d: recorded as %+v", i, e.link)
		}
		check(t, i, l)
	}
	// The user's own changes stay until the configuration changes.
	fd, _ := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	defer unix.Close(fd)
	eth0, err := net.InterfaceByName(interfaceName)
	if err != nil {
		t.Fatal(err)
	}
	users := []request{
		addAddress(uint32(eth0.Index), netip.MustParsePrefix("10.170.9.79/20")), addAddress(uint32(eth0.Index), netip.MustParsePrefix("10.99.0.1/16")),
	}
	if _, err := ask(fd, users); err != nil {
		t.Fatal(err)
	}
	if err := e.connect(network(same)); err != nil {
		t.Fatal(err)
	}
	if addresses := addressesOf(t); len(addresses) != 3 {
		t.Errorf("the user's addresses are gone: %v", addresses)
	}
	if err := configure(four); err != nil {
		t.Fatal(err)
	}
	check(t, 99, four)
	// An error names the failed step, and the next call tries again.
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if err := e.connect(network(four)); err == nil || e.link != (agent.Link{}) {
		t.Errorf("network without an interface: got %v, recorded %+v", err, e.link)
	}
	if _, err := ask(fd, []request{addRoute(uint32(eth0.Index), netip.MustParseAddr("192.0.2.1"))}); !errors.Is(err, unix.ENETUNREACH) ||
		!strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("a gateway that can't be reached: %v", err)
	}
}

// network converts a link to a protocol message.
func network(l agent.Link) *agentv1.Network {
	n := &agentv1.Network{
		Mac: l.MAC[:], Address: l.Address.String(), Gateway: l.Gateway.String(), Dns: []string{l.Gateway.String()}, Mtu: uint32(l.MTU),
	}
	if l.Address6.IsValid() {
		n.Address6, n.Gateway6 = l.Address6.String(), l.Gateway6.String()
	}
	return n
}

// addressesOf returns the addresses of eth0, except those that the kernel itself has made.
func addressesOf(t *testing.T) (addresses []string) {
	t.Helper()
	eth0, err := net.InterfaceByName(interfaceName)
	if err != nil {
		t.Fatal(err)
	}
	all, err := eth0.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p := netip.MustParsePrefix(a.String()); !p.Addr().IsLinkLocalUnicast() {
			addresses = append(addresses, p.String())
		}
	}
	return addresses
}

// check compares the configuration of eth0 with a link.
func check(t *testing.T, i int, l agent.Link) {
	t.Helper()
	eth0, err := net.InterfaceByName(interfaceName)
	if err != nil {
		t.Fatal(err)
	}
	if eth0.MTU != l.MTU || eth0.HardwareAddr.String() != net.HardwareAddr(l.MAC[:]).String() || eth0.Flags&net.FlagUp == 0 {
		t.Errorf("%d: eth0 is %+v", i, eth0)
	}
	want := []string{l.Address.String()}
	if l.Address6.IsValid() {
		want = append(want, l.Address6.String())
	}
	if got := addressesOf(t); !slices.Equal(got, want) {
		t.Errorf("%d: addresses: %v, want %v", i, got, want)
	}
	gateway := binary.NativeEndian.Uint32(l.Gateway.AsSlice())
	if got := defaults(t, "/proc/thread-self/net/route", 8, 1, "00000000", 2); !slices.Equal(got, []string{fmt.Sprintf("%08X", gateway)}) {
		t.Errorf("%d: default routes by %v, want %08X", i, got, gateway)
	}
	want = nil
	if l.Gateway6.IsValid() {
		want = []string{hex.EncodeToString(l.Gateway6.AsSlice())}
	}
	if got := defaults(t, "/proc/thread-self/net/ipv6_route", 10, 0, strings.Repeat("0", 32), 4); !slices.Equal(got, want) {
		t.Errorf("%d: default routes of IPv6 by %v, want %v", i, got, want)
	}
	for _, name := range []string{"accept_ra", "autoconf", "accept_dad"} {
		if b, err := os.ReadFile("/proc/sys/net/ipv6/conf/eth0/" + name); err == nil && string(b) != "0\n" {
			t.Errorf("%d: %s is %q", i, name, b)
		}
	}
	inet6, _ := os.ReadFile("/proc/thread-self/net/if_inet6") // fields: address, index, prefix length, scope, flags, name
	for line := range strings.Lines(string(inet6)) {
		if f := strings.Fields(line); f[5] == interfaceName && strings.HasPrefix(f[0], "fd") && f[4] != "82" { // 82 is IFA_F_PERMANENT and IFA_F_NODAD
			t.Errorf("%d: the address is not usable yet: %s", i, line)
		}
	}
}

// defaults returns the gateways of eth0's default routes in a kernel file. destination and gateway
// are the columns of these values. The parameter least is the minimum number of fields of a line;
// shorter lines are ignored. The parameter none is the destination of a default route.
func defaults(t *testing.T, list string, least, destination int, none string, gateway int) (gateways []string) {
	t.Helper()
	b, err := os.ReadFile(list)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= least && slices.Contains(f, interfaceName) && f[destination] == none && strings.Trim(f[gateway], "0") != "" {
			gateways = append(gateways, f[gateway])
		}
	}
	return gateways
}
